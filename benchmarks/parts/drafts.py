"""The time from an event of a platform to the first text of the answer in the chat, by a fake Telegram.

The fake model answers at once. The update arrives at the webhook; the text is a native preview in a private chat, and
a message that is edited in a group.
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
_TEXT = f"@{BOT_NAME} [[tokens=60 rate=60]]"
_MENTION = {"entities": [{"type": "mention", "offset": 0, "length": len(BOT_NAME) + 1}]}
_WAIT_SECONDS, _POLL_SECONDS = 30.0, 0.001
_FIRST = ("sendMessageDraft", "sendMessage")
_OPEN_DELIVERIES = "SELECT count(*) FROM komand_delivery WHERE status IN ('draft', 'pending', 'sending')"


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    with FakeTelegram() as platform:
        await asyncio.to_thread(_add_account, installation, platform.url)
        count, meter = scale.repetitions, CpuMeter(installation.pids())
        private = [await _first_text(installation, platform, private_update, number) for number in range(1, count + 1)]
        group = [await _first_text(installation, platform, group_update, count + 1 + number) for number in range(count)]
        spent = meter.read()
    figures = []
    for what, times in (("private chat", private), ("group", group)):
        figures.append(Figure(PART, f"{what}: update to first text, p50", p50(times), "ms"))
        figures.append(Figure(PART, f"{what}: update to first text, p99", p99(times), "ms"))
    runs = sum(seconds for name, seconds in spent.items() if name.startswith("runs"))
    for name, seconds in (("web", spent["web"]), ("runs worker", runs)):
        figures.append(
            Figure(PART, f"CPU an answer of a second with its previews, {name}", seconds * 500 / count, "ms")
        )
    return figures


async def _first_text(
    installation: Installation, platform: FakeTelegram, update: Callable[..., dict[str, Any]], number: int
) -> float:
    """Send an update. Return the milliseconds until the first text of its answer arrived; wait for its end."""
    platform.calls.clear()
    headers = {"x-telegram-bot-api-secret-token": _SECRET}
    begun = time.monotonic()
    body = update(number, _TEXT, **_MENTION)
    answer = await post_json(installation.gateway.address, "/channels/telegram/bench/webhook", headers, body)
    if answer.status != 200:
        raise Refused(f"an update was not taken: {answer.status} {answer.body[:300]!r}")
    while not (calls := [call for call in list(platform.calls) if call.method in _FIRST]):
        if time.monotonic() - begun > _WAIT_SECONDS:
            raise NotFinished("no text arrived at the platform")
        await asyncio.sleep(_POLL_SECONDS)
    await installation.all_ended()
    while installation.database.number(_OPEN_DELIVERIES):
        await asyncio.sleep(_POLL_SECONDS)
    return (calls[0].at - begun) * 1000


def _add_account(installation: Installation, url: str) -> None:
    contents = {
        "config": {"api_url": url, "bot_username": BOT_NAME, "receive": "webhook", "chat_seconds": 0},
        "secrets": {"bot_token": TOKEN, "webhook_secret": _SECRET},
    }
    options = ["--access", "open", "--tools", "none", "--messages-per-day", "1000000"]
    with tempfile.TemporaryDirectory() as folder:
        for option, content in contents.items():
            path = Path(folder) / f"{option}.json"
            path.write_text(json.dumps(content))
            options += [f"--{option}", str(path)]
        installation.gateway.run(["-m", "django", "channel", "add", "telegram", "bench", *options])
