"""The latency that the gateway adds to the first token, compared with direct calls of the model.

The fake model answers at once, so nearly all of the time is the gateway's: the message by REST, the run through the
database and the worker, the token to the chat page's WebSocket. Direct calls and the bare relay alternate with it, so
that a busy machine slows all three.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.figures import Figure, p50, p99
from benchmarks.installation import Installation, Moments
from benchmarks.scale import Scale
from benchmarks.viewers import Tally, ask_all, close_all, open_all

PART = "first-token"
_TOKENS = 30
_TARGETS = {1: 40.0, 50: 300.0, 200: 1200.0}  # viewers: most milliseconds added


@dataclass
class Samples:
    """Milliseconds from the request to the first token; for the gateway also to the run's storage and claim."""

    gateway: list[float] = field(default_factory=list)
    relay: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)
    stored: list[float] = field(default_factory=list)
    claimed: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    figures = []
    for viewers, rounds in ((1, scale.repetitions), *scale.bursts):
        samples = await _sample(installation, viewers, rounds)
        figures += _figures(viewers, samples)
    return figures


async def _sample(installation: Installation, count: int, rounds: int) -> Samples:
    samples = Samples()
    gateway, relay = installation.viewers(count), installation.relay_viewers(count)
    await open_all([*gateway, *relay])
    try:
        for _ in range(rounds):
            samples.direct += [tally.first_ms for tally in await ask_all(installation.direct_viewers(count), _TOKENS)]
            samples.relay += [tally.first_ms for tally in await ask_all(relay, _TOKENS)]
            tallies = await ask_all(gateway, _TOKENS)
            await installation.all_ended()
            _note(samples, tallies, installation.moments(gateway))
    finally:
        close_all([*gateway, *relay])
    return samples


def _note(samples: Samples, tallies: Sequence[Tally], moments: Sequence[Moments]) -> None:
    clocks_apart = time.time() - time.monotonic()
    for tally, moment in zip(tallies, moments, strict=True):
        begun = tally.started_at + clocks_apart
        samples.gateway.append(tally.first_ms)
        samples.stored.append((moment.stored_at - begun) * 1000)
        samples.claimed.append((moment.claimed_at - begun) * 1000)
        samples.sent.append(tally.first_sent_ms)


def _figures(viewers: int, samples: Samples) -> list[Figure]:
    who = "1 viewer" if viewers == 1 else f"{viewers} at once"
    added = p50(samples.gateway) - p50(samples.direct)
    return [
        Figure(PART, f"{who}: added, p50", added, "ms", target=_TARGETS.get(viewers)),
        Figure(PART, f"{who}: added, p99", p99(samples.gateway) - p99(samples.direct), "ms"),
        Figure(PART, f"{who}: direct, p50", p50(samples.direct), "ms"),
        Figure(PART, f"{who}: bare relay, p50", p50(samples.relay), "ms"),
        Figure(PART, f"{who}: gateway / bare relay, p50", p50(samples.gateway) / p50(samples.relay), "×"),
        Figure(PART, f"{who}: until the message is being stored, p50", p50(samples.stored), "ms"),
        Figure(PART, f"{who}: until a worker has claimed the run, p50", p50(samples.claimed), "ms"),
        Figure(PART, f"{who}: until the model sends, p50", p50(samples.sent), "ms"),
        Figure(PART, f"{who}: until the page has it, p50", p50(samples.gateway), "ms"),
    ]
