"""The cost of many viewers: hundreds of one session, and a thousand over many live runs.

Every viewer must see every token. The lag is the time from the model's sending to each viewer's page.
"""

from collections.abc import Sequence

from benchmarks.figures import Figure, p50, p99
from benchmarks.installation import Installation
from benchmarks.meters import CpuMeter
from benchmarks.scale import Scale
from benchmarks.viewers import Viewer, close_all, open_all, watch_all

PART = "fanout"


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    [sender] = installation.viewers(1)
    one = await _watch(installation, [sender], installation.watchers(sender, scale.fanout - 1), scale.tokens)
    viewers, runs = scale.watched
    senders = installation.viewers(runs)
    others = [watcher for sender in senders for watcher in installation.watchers(sender, viewers // runs - 1)]
    many = await _watch(installation, senders, others, scale.tokens, lag_target=1000)
    return [
        *(_named(f"{scale.fanout} viewers of one session", figure) for figure in one),
        *(_named(f"{viewers} viewers over {runs} live runs", figure) for figure in many),
    ]


async def _watch(
    installation: Installation,
    senders: Sequence[Viewer],
    watchers: Sequence[Viewer],
    tokens: int,
    *,
    lag_target: float | None = None,
) -> list[Figure]:
    everyone = [*senders, *watchers]
    await open_all(everyone)
    try:
        meter, frames = CpuMeter(installation.pids()), sum(viewer.frames for viewer in everyone)
        seen = await watch_all(senders, watchers, tokens, over_seconds=1.0)
        spent, frames = meter.read(), sum(viewer.frames for viewer in everyone) - frames
    finally:
        close_all(everyone)
    await installation.all_ended()
    return [
        Figure(PART, "tokens that somebody missed", seen.missed, target=0),
        Figure(PART, "token lag, p50", p50(seen.lags_ms), "ms"),
        Figure(PART, "token lag, p99", p99(seen.lags_ms), "ms", target=lag_target),
        Figure(PART, "CPU a token and viewer, web", spent["web"] * 1e6 / len(seen.lags_ms), "µs"),
        Figure(PART, "CPU a frame, web (what waits is sent in one)", spent["web"] * 1e6 / frames, "µs"),
        Figure(PART, "CPU a token and viewer, load client", spent["client"] * 1e6 / len(seen.lags_ms), "µs"),
    ]


def _named(what: str, figure: Figure) -> Figure:
    return Figure(
        PART, f"{what}: {figure.name}", figure.value, figure.unit, target=figure.target, at_least=figure.at_least
    )
