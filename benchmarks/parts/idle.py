"""The cost of waiting: memory for each viewer of an idle session, and for each live stream."""

import asyncio

import psutil

from benchmarks.figures import Figure
from benchmarks.installation import Installation
from benchmarks.scale import Scale
from benchmarks.viewers import ask_all, close_all, open_all

PART = "idle"
_STREAM_TOKENS = 150
_FEW = 5


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    """Measure all viewers after a few that warm the process up."""
    viewers = installation.viewers(scale.idle)
    for group in (viewers[:_FEW], viewers):
        before = _rss(installation)
        await open_all(group)
        await asyncio.sleep(scale.settle_seconds)
        waiting = _rss(installation)
        close_all(group)
        await asyncio.sleep(1)
    streams = await _streaming(installation, scale)
    a_viewer = (waiting["web"] - before["web"]) / scale.idle / 1000
    return [
        Figure(PART, f"RSS of web for each of {scale.idle} idle viewers", a_viewer, "kB", target=60),
        Figure(PART, "RSS of web for each live stream and its viewer", streams["web"] / 1000, "kB"),
        Figure(
            PART,
            "RSS of the runs worker for each live stream",
            sum(streams[name] for name in streams if name.startswith("runs")) / 1000,
            "kB",
        ),
    ]


async def _streaming(installation: Installation, scale: Scale) -> dict[str, float]:
    """Return the bytes a stream while all of them run, beyond those of the idle process; after a few to warm up."""
    grown: dict[str, float] = {}
    for count in (_FEW, max(scale.streams)):
        viewers = installation.viewers(count)
        before = _rss(installation)
        await open_all(viewers)
        asking = asyncio.ensure_future(ask_all(viewers, _STREAM_TOKENS, over_seconds=1.0))
        await asyncio.sleep(4)
        now = _rss(installation)
        await asking
        close_all(viewers)
        await installation.all_ended()
        grown = {name: (now[name] - before[name]) / count for name in before}
    return grown


def _rss(installation: Installation) -> dict[str, int]:
    return {name: psutil.Process(pid).memory_info().rss for name, pid in installation.pids().items()}
