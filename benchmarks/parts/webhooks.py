"""Signed webhooks a second of one web process, each stored with its run before it is acknowledged.

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


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    senders = max(1, scale.webhooks // _A_SENDER)
    for sender in range(senders):
        await _post(installation, sender, 0, f"[[first={_BUSY_SECONDS} tokens=1 rate=0]]")
    waiting = [(sender, number) for number in range(1, _A_SENDER) for sender in range(senders)]
    count, meter, begun = len(waiting), CpuMeter(installation.pids()), time.monotonic()
    times: list[float] = []

    async def send() -> None:
        while waiting:
            sender, number = waiting.pop()
            times.append(await _post(installation, sender, number, "[[tokens=1 rate=0]]"))

    await asyncio.gather(*(send() for _ in range(_AT_ONCE)))
    took, spent = time.monotonic() - begun, meter.read()
    await installation.all_ended()
    each_ms = spent["web"] * 1000 / count
    return [
        Figure(PART, f"{count} of {senders} senders, {_AT_ONCE} at once", count / took, "/s", _A_SECOND, at_least=True),
        Figure(PART, "a web process that has a core could take", 1000 / each_ms, "/s", _A_SECOND, at_least=True),
        Figure(PART, "CPU a webhook, web", each_ms, "ms"),
        Figure(PART, "POST to acknowledged, p50", p50(times), "ms"),
        Figure(PART, "POST to acknowledged, p99", p99(times), "ms", target=300),
    ]


async def _post(installation: Installation, sender: int, number: int, text: str) -> float:
    """Send a webhook. Return the milliseconds until it was acknowledged."""
    account = installation.seeded["webhook"]
    body = {"type": "message.received", "data": {"senderId": f"sender-{sender}", "text": text}}
    raw = json.dumps(body).encode()
    headers = signed_headers(f"bench-{sender}-{number}", raw, secret=account["secret"])
    begun = time.monotonic()
    answer = await post_json(installation.gateway.address, account["path"], headers, body)
    if answer.status != 202:
        raise Refused(f"a webhook was not taken: {answer.status} {answer.body[:300]!r}")
    return (time.monotonic() - begun) * 1000
