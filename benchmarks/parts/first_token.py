"""How much longer the first token takes through the gateway than straight from the model.

The model answers at once here, so nearly all of the time is ours: the message by REST, the run through the database
and the worker, the token to the chat page's WebSocket. Direct calls and the bare relay take turns with it, so that a
busy machine slows all three.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.figures import Figure, p50, p99
from benchmarks.installation import Installation
from benchmarks.scale import Scale
from benchmarks.watching import Viewer, ask_all, close_all, open_all

PART = "first-token"
_TOKENS = 30
_TARGETS = {1: (60.0, 40.0), 50: (500.0, 300.0)}  # viewers: most milliseconds added, and what we would like


@dataclass
class Samples:
    """Milliseconds to the first token."""

    gateway: list[float] = field(default_factory=list)
    relay: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    figures = []
    for viewers, rounds in ((1, scale.repetitions), *scale.crowds):
        samples = await _sample(installation, viewers, rounds)
        figures += _figures(viewers, samples)
    return figures


async def _sample(installation: Installation, count: int, rounds: int) -> Samples:
    samples = Samples()
    gateway, relay = installation.viewers(count), installation.relay_viewers(count)
    await open_all([*gateway, *relay])
    try:
        for _ in range(rounds):
            samples.direct += await _first_tokens(installation.direct_viewers(count))
            samples.relay += await _first_tokens(relay)
            samples.gateway += await _first_tokens(gateway)
            await installation.all_ended()
    finally:
        close_all([*gateway, *relay])
    return samples


async def _first_tokens(viewers: Sequence[Viewer]) -> list[float]:
    return [tally.first_ms for tally in await ask_all(viewers, _TOKENS)]


def _figures(viewers: int, samples: Samples) -> list[Figure]:
    who = "1 viewer" if viewers == 1 else f"{viewers} at once"
    target, stretch = _TARGETS.get(viewers, (None, None))
    added = p50(samples.gateway) - p50(samples.direct)
    return [
        Figure(PART, f"{who}: added, p50", added, "ms", target=target, stretch=stretch),
        Figure(PART, f"{who}: added, p99", p99(samples.gateway) - p99(samples.direct), "ms"),
        Figure(PART, f"{who}: direct, p50", p50(samples.direct), "ms"),
        Figure(PART, f"{who}: bare relay, p50", p50(samples.relay), "ms"),
        Figure(PART, f"{who}: gateway / bare relay, p50", p50(samples.gateway) / p50(samples.relay), "×"),
    ]
