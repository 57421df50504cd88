"""Signed webhooks of one web process, each stored with its run before it is acknowledged: how many, and how fast.

The first message of each sender keeps its session busy until all are stored, so that no other run starts meanwhile.
"""

import asyncio
import json
import time

from benchmarks.figures import Figure, p50, p99
from benchmarks.installation import Installation
from benchmarks.meters import CpuMeter
from benchmarks.scale import Scale
from benchmarks.wire import Refused, post_json
from tests.fakes.webhook_receiver import signed_headers

PART = "webhooks"
_A_SENDER = 20
_AT_ONCE = 20
_BUSY_SECONDS = 15
_A_SECOND = 150
# Shorter messages of one sender are joined into one turn.
_TEXT = f"[[tokens=1 rate=0]] {'a long message ' * 40}"
_PACE = 100  # a second, however long each takes
_PACED_MS = 50


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    return [*await _at_once(installation, scale), *await _paced(installation, scale)]


async def _at_once(installation: Installation, scale: Scale) -> list[Figure]:
    """Send as many as are acknowledged, some at a time."""
    senders = await _keep_busy(installation, scale, "at-once")
    waiting = [(sender, number) for number in range(1, _A_SENDER) for sender in senders]
    count, meter, begun = len(waiting), CpuMeter(installation.pids()), time.monotonic()
    times: list[float] = []

    async def send() -> None:
        while waiting:
            times.append(await _post(installation, *waiting.pop()))

    await asyncio.gather(*(send() for _ in range(_AT_ONCE)))
    took, spent = time.monotonic() - begun, meter.read()
    await installation.all_ended()
    each_ms, what = spent["web"] * 1000 / count, f"{count} of {len(senders)} senders, {_AT_ONCE} at once"
    return [
        Figure(PART, what, count / took, "/s", _A_SECOND, at_least=True),
        Figure(PART, "a web process that has a core could take", 1000 / each_ms, "/s", _A_SECOND, at_least=True),
        Figure(PART, "CPU a webhook, web", each_ms, "ms"),
        Figure(PART, "POST to acknowledged, p50", p50(times), "ms"),
        Figure(PART, "POST to acknowledged, p99", p99(times), "ms", target=300),
    ]


async def _paced(installation: Installation, scale: Scale) -> list[Figure]:
    """Send at a fixed rate, as many senders that know nothing of each other do."""
    senders = await _keep_busy(installation, scale, "paced")
    messages = [(sender, number) for number in range(1, _A_SENDER) for sender in senders]
    meter, begun = CpuMeter(installation.pids()), time.monotonic()

    async def send(place: int, sender: str, number: int) -> float:
        await asyncio.sleep(begun + place / _PACE - time.monotonic())
        return await _post(installation, sender, number)

    times = await asyncio.gather(*(send(place, *message) for place, message in enumerate(messages)))
    took, spent = time.monotonic() - begun, meter.read()
    await installation.all_ended()
    name = f"POST to acknowledged, {_PACE} a second"
    return [
        Figure(PART, f"{name}, p50", p50(times), "ms"),
        Figure(PART, f"{name}, p99", p99(times), "ms", target=_PACED_MS),
        Figure(PART, f"CPU of web at {_PACE} a second", spent["web"] / took * 100, "% of a core"),
    ]


async def _keep_busy(installation: Installation, scale: Scale, prefix: str) -> list[str]:
    """Send the first message of each sender. Return the senders."""
    senders = [f"{prefix}-{number}" for number in range(max(1, scale.webhooks // _A_SENDER))]
    for sender in senders:
        await _post(installation, sender, 0, f"[[first={_BUSY_SECONDS}]]{_TEXT}")
    return senders


async def _post(installation: Installation, sender: str, number: int, text: str = _TEXT) -> float:
    """Send a webhook. Return the milliseconds until it was acknowledged."""
    account = installation.seeded["webhook"]
    body = {"type": "message.received", "data": {"senderId": sender, "text": text}}
    raw = json.dumps(body).encode()
    headers = signed_headers(f"bench-{sender}-{number}", raw, secret=account["secret"])
    begun = time.monotonic()
    answer = await post_json(installation.gateway.address, account["path"], headers, body)
    if answer.status != 202:
        raise Refused(f"a webhook was not taken: {answer.status} {answer.body[:300]!r}")
    return (time.monotonic() - begun) * 1000
