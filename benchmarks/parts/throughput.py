"""Runs a second when the model answers at once, and the database statements of one run."""

import asyncio
import json
import time

from benchmarks.figures import Figure, p50, p99
from benchmarks.installation import Installation
from benchmarks.meters import CpuMeter
from benchmarks.scale import Scale
from benchmarks.viewers import GatewayViewer

PART = "throughput"
_INSTANT = "[[tokens=20 rate=0]]"


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    """Send each session its messages without waiting for answers: they queue."""
    senders = installation.viewers(scale.run_sessions)
    per_session = scale.runs // scale.run_sessions
    meter = CpuMeter(installation.pids())
    begun = time.time()
    taken = await asyncio.gather(*(_send(sender, per_session) for sender in senders))
    ended = await installation.all_ended()
    runs = per_session * scale.run_sessions
    spent = {name: seconds * 1000 / runs for name, seconds in meter.read().items()}
    accepting = [took for times in taken for took in times]
    statements = json.loads(installation.gateway.run(["-m", "benchmarks.statements"]))
    return [
        Figure(
            PART, f"{runs} runs over {scale.run_sessions} sessions", runs / (ended - begun), "runs/s", 40, at_least=True
        ),
        Figure(PART, "POST to accepted, p50", p50(accepting), "ms"),
        Figure(PART, "POST to accepted, p99", p99(accepting), "ms"),
        *(
            Figure(PART, f"CPU a run, {name}", sum(spent[part] for part in spent if part.startswith(name)), "ms")
            for name in ("web", "runs", "valkey")
        ),
        Figure(PART, "statements of accepting a message", statements["accept"]["statements"]),
        Figure(PART, "write transactions of accepting a message", statements["accept"]["transactions"]),
        Figure(PART, "statements of its run without tools", statements["run"]["statements"]),
        Figure(PART, "write transactions of its run", statements["run"]["transactions"]),
    ]


async def _send(sender: GatewayViewer, count: int) -> list[float]:
    """Send the messages. Return the milliseconds until each was accepted."""
    times = []
    for _ in range(count):
        begun = time.monotonic()
        await sender.send(_INSTANT)
        times.append((time.monotonic() - begun) * 1000)
    return times
