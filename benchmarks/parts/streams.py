"""Many answers that stream at once, each with a viewer: their pace, and the CPU cost of a token.

The pace is held if even the slowest stream is shown to its end nearly as fast as the model sends it. CPU seconds are
compared with those of the bare relay under the same load.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.figures import Figure, p50, p99
from benchmarks.installation import Installation
from benchmarks.meters import CpuMeter
from benchmarks.scale import Scale
from benchmarks.viewers import RATE, Tally, Viewer, ask_all, close_all, open_all

PART = "streams"
_OVER_SECONDS = 2.0  # starts are spread: part `first-token` measures bursts
_HELD = 95.0  # percent of the pace
_MUST_HOLD = 100  # streams
_MANY = 200  # streams, of which so many tokens a second must be shown, and nearly all within so many milliseconds
_SHOWN, _LATE_MS = 5000, 400
# Processes whose share is listed; that of the others is negligible.
_OURS = {"web": ("web",), "runs": ("runs-1", "runs-2"), "valkey": ("valkey",)}


@dataclass(frozen=True)
class Load:
    """The tallies of concurrent streams, and the CPU microseconds a token of each process."""

    tallies: list[Tally]
    cost_us: dict[str, float]

    def cost_of(self, *names: str) -> float:
        return sum(self.cost_us.get(name, 0.0) for name in names)


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    figures = []
    for count in scale.streams:
        relayed = await _stream(installation, installation.relay_viewers(count), scale.tokens)
        passed = await _stream(installation, installation.viewers(count), scale.tokens)
        await installation.all_ended()
        figures += _figures(count, passed, relayed)
    return figures


async def _stream(installation: Installation, viewers: Sequence[Viewer], tokens: int) -> Load:
    await open_all(viewers)
    try:
        meter = CpuMeter(installation.pids())
        tallies = await ask_all(viewers, tokens, over_seconds=_OVER_SECONDS)
        spent = meter.read()
    finally:
        close_all(viewers)
    seen = sum(len(tally.lags_ms) for tally in tallies)
    return Load(tallies, {name: seconds * 1e6 / seen for name, seconds in spent.items()})


def _figures(count: int, passed: Load, relayed: Load) -> list[Figure]:
    lags = [lag for tally in passed.tallies for lag in tally.lags_ms]
    relay_lags = [lag for tally in relayed.tallies for lag in tally.lags_ms]
    slowest = min(100 * tally.kept_up for tally in passed.tallies)
    sent = 100 * p50([tally.sent_pace for tally in passed.tallies]) / RATE
    gateway = [name for name in passed.cost_us if name not in ("model", "relay", "client")]
    cost, relay_cost = passed.cost_of(*gateway), relayed.cost_of("relay")
    target = _HELD if count == _MUST_HOLD else None
    shown, late = (_SHOWN, _LATE_MS) if count == _MANY else (None, None)
    pace = sum(tally.shown_pace for tally in passed.tallies if len(tally.lags_ms) > 1)
    return [
        Figure(PART, f"{count}: slowest stream's pace", slowest, "% of the model's", target=target, at_least=True),
        Figure(PART, f"{count}: the model's own pace, median", sent, f"% of {RATE}/s"),
        Figure(PART, f"{count}: tokens shown a second", pace, "/s", target=shown, at_least=True),
        Figure(PART, f"{count}: token lag, p50", p50(lags), "ms"),
        Figure(PART, f"{count}: token lag, p99", p99(lags), "ms", target=late),
        Figure(PART, f"{count}: token lag, worst", max(lags), "ms"),
        Figure(PART, f"{count}: token lag through the bare relay, p99", p99(relay_lags), "ms"),
        Figure(PART, f"{count}: CPU a token, whole gateway", cost, "µs"),
        *(Figure(PART, f"{count}: CPU a token, {name}", passed.cost_of(*parts), "µs") for name, parts in _OURS.items()),
        Figure(PART, f"{count}: CPU a token, bare relay", relay_cost, "µs"),
        Figure(PART, f"{count}: CPU a token, gateway / bare relay", cost / relay_cost if relay_cost else 0.0, "×"),
        Figure(PART, f"{count}: CPU a token, load client", passed.cost_of("client"), "µs"),
    ]
