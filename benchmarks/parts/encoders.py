"""The share of each surface's projection in the CPU time of a token.

The whole path is the CPU time of the web process, the runs worker and Valkey for a token, while answers stream at the
model's pace to one client each: read from the provider, append to the stream, follow, compute the viewer's state,
project, send; and the token's share of the start and end of its run, about a third in answers of this length. The
projection alone, from a piece of text to the bytes of its frame, is timed in a separate process. Output that a surface
renders once for all viewers counts in full for the one viewer.
"""

import json

from benchmarks.figures import Figure
from benchmarks.installation import Installation
from benchmarks.meters import CpuMeter
from benchmarks.scale import Scale
from benchmarks.surfaces import VIEWERS, viewers_of
from benchmarks.viewers import GatewayViewer, ask_all, close_all, open_all

PART = "encoders"
_MOST_SHARE = 15.0  # percent
_OVER_SECONDS = 1.0
_OTHERS = ("model", "relay", "client")


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    rounds = "200" if scale.starts > 1 else "10"
    alone = json.loads(installation.gateway.run(["-m", "benchmarks.encoder_cost", rounds]).splitlines()[-1])
    figures = []
    for name, kind in VIEWERS.items():
        whole = await _path_us(installation, viewers_of(installation, kind, scale.surfaces), scale.tokens)
        figures += [
            Figure(PART, f"{name}: CPU a token, whole path", whole, "µs"),
            Figure(PART, f"{name}: its encoder", alone.pop(name), "µs"),
        ]
        figures.append(Figure(PART, f"{name}: its encoder's share", 100 * figures[-1].value / whole, "%", _MOST_SHARE))
    return [*figures, *(Figure(PART, f"{name}: the encoder", value, "µs") for name, value in alone.items())]


async def _path_us(installation: Installation, viewers: list[GatewayViewer], tokens: int) -> float:
    await open_all(viewers)
    try:
        meter = CpuMeter(installation.pids())
        tallies = await ask_all(viewers, tokens, over_seconds=_OVER_SECONDS)
        await installation.all_ended()
        spent = meter.read()
    finally:
        close_all(viewers)
    seen = sum(len(tally.lags_ms) for tally in tallies)
    return sum(seconds for name, seconds in spent.items() if name not in _OTHERS) * 1e6 / seen
