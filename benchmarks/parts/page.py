"""The time of the chat page of a very long session: the first request, and later ones."""

import time

from benchmarks.figures import Figure, p50
from benchmarks.installation import LONG_TURNS, Installation
from benchmarks.scale import Scale
from benchmarks.wire import Answer, Refused, request

PART = "page"


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    first, _ = await _load(installation)
    again = [await _load(installation) for _ in range(scale.pages)]
    size = len(again[-1][1].body) / 1000
    return [
        Figure(PART, f"chat page of {LONG_TURNS:,} turns, median", p50([took for took, _ in again]), "ms", target=200),
        Figure(PART, "its first request (answers are rendered once)", first, "ms"),
        Figure(PART, "its size", size, "kB"),
    ]


async def _load(installation: Installation) -> tuple[float, Answer]:
    """Return the milliseconds of one request, connection included, and its answer."""
    seeded = installation.seeded
    begun = time.monotonic()
    path = f"/chat/{seeded['long_session']['id']}"
    answer = await request(installation.gateway.address, "GET", path, {"cookie": seeded["cookie"]})
    if answer.status != 200:
        raise Refused(f"{path} answers {answer.status}")
    return (time.monotonic() - begun) * 1000, answer
