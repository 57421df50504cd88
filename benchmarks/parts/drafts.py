"""The time from an event of a platform to the first text of the answer in the chat, by a fake Telegram.

The fake model answers at once. The update arrives at the webhook; the text is a native preview in a private chat, and
a message that is edited in a group. A short message waits for further ones (`KOMAND_BURST_MS`), a long one does not.
Each message is in a chat of its own: no pause between messages of one chat is measured.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, p50, p99
from benchmarks.installation import Installation, NotFinished
from benchmarks.meters import CpuMeter
from benchmarks.scale import Scale
from benchmarks.wire import Refused, post_json
from tests.fakes.telegram import BOT_NAME, TOKEN, FakeTelegram, group_update, private_update

PART = "drafts"
_SECRET = "webhook-secret-of-the-benchmark"
_SHORT = f"@{BOT_NAME} [[tokens=60 rate=60]]"
_LONG = f"{_SHORT} {'a long message ' * 40}"
_MENTION = {"entities": [{"type": "mention", "offset": 0, "length": len(BOT_NAME) + 1}]}
Updates = Callable[[int, int], list[dict[str, Any]]]  # the first number, their count
_WAIT_SECONDS, _POLL_SECONDS, _END_POLL_SECONDS = 30.0, 0.001, 0.05
_FIRST = ("sendMessageDraft", "sendMessage")
_OPEN_DELIVERIES = "SELECT count(*) FROM komand_delivery WHERE status IN ('draft', 'pending', 'sending')"


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    with FakeTelegram() as platform:
        await asyncio.to_thread(_add_account, installation, platform.url)
        count, meter = scale.drafts, CpuMeter(installation.pids())
        measured = {
            what: [await _first_text(installation, platform, update) for update in updates(1 + number * count, count)]
            for number, (what, updates) in enumerate(_KINDS.items())
        }
        spent = meter.read()
    figures = []
    for what, times in measured.items():
        figures.append(Figure(PART, f"{what}: update to first text, p50", p50(times), "ms"))
        figures.append(Figure(PART, f"{what}: update to first text, p99", p99(times), "ms"))
    answers = count * len(_KINDS)
    runs = sum(seconds for name, seconds in spent.items() if name.startswith("runs"))
    for name, seconds in (("web", spent["web"]), ("runs worker", runs)):
        figures.append(
            Figure(PART, f"CPU an answer of a second with its previews, {name}", seconds * 1000 / answers, "ms")
        )
    return figures


def _private(text: str) -> Updates:
    return lambda first, count: [private_update(number, text, user=number) for number in range(first, first + count)]


def _group(text: str) -> Updates:
    def updates(first: int, count: int) -> list[dict[str, Any]]:
        numbers = range(first, first + count)
        return [group_update(number, text, user=number, chat=-100_000 - number, **_MENTION) for number in numbers]

    return updates


_KINDS: dict[str, Updates] = {
    "private chat, short message": _private(_SHORT),
    "private chat, long message": _private(_LONG),
    "group, short message": _group(_SHORT),
    "group, long message": _group(_LONG),
}


async def _first_text(installation: Installation, platform: FakeTelegram, update: dict[str, Any]) -> float:
    """Send an update. Return the milliseconds until the first text of its answer arrived; wait for its end."""
    platform.calls.clear()
    headers = {"x-telegram-bot-api-secret-token": _SECRET}
    begun = time.monotonic()
    answer = await post_json(installation.gateway.address, "/channels/telegram/bench/webhook", headers, update)
    if answer.status != 200:
        raise Refused(f"an update was not taken: {answer.status} {answer.body[:300]!r}")
    while not (calls := [call for call in list(platform.calls) if call.method in _FIRST]):
        if time.monotonic() - begun > _WAIT_SECONDS:
            raise NotFinished("no text arrived at the platform")
        await asyncio.sleep(_POLL_SECONDS)
    await installation.all_ended()
    ended = time.monotonic()
    while installation.database.number(_OPEN_DELIVERIES):  # in a group, three seconds after the first text
        if time.monotonic() - ended > _WAIT_SECONDS:
            raise NotFinished("the answer was not sent to its end")
        await asyncio.sleep(_END_POLL_SECONDS)
    return (calls[0].at - begun) * 1000


def _add_account(installation: Installation, url: str) -> None:
    contents = {
        "config": {"api_url": url, "bot_username": BOT_NAME, "receive": "webhook"},
        "secrets": {"bot_token": TOKEN, "webhook_secret": _SECRET},
    }
    options = ["--access", "open", "--tools", "none"]
    with tempfile.TemporaryDirectory() as folder:
        for option, content in contents.items():
            path = Path(folder) / f"{option}.json"
            path.write_text(json.dumps(content))
            options += [f"--{option}", str(path)]
        installation.gateway.run(["-m", "django", "channel", "add", "telegram", "bench", *options])
