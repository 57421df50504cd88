"""The memory of each process when the installation is idle."""

import asyncio

from benchmarks import meters
from benchmarks.figures import Figure
from benchmarks.installation import Installation
from benchmarks.scale import Scale

PART = "memory"
_MB = 1e6


async def measure(installation: Installation, scale: Scale) -> list[Figure]:
    """Measure after one page was shown, one message was answered, and the installation has settled."""
    viewer = installation.viewers(1)[0]
    await viewer.open()
    await viewer.ask(3, 30)
    viewer.close()
    await installation.all_ended()
    await asyncio.sleep(scale.settle_seconds)
    parts = installation.gateway.parts()
    resident = {part.name: meters.resident_bytes(part.pid) / _MB for part in parts}
    shared_once = meters.proportional_bytes({part.name: part.pid for part in parts}) / _MB
    return [
        *(Figure(PART, f"RSS of {name}", value, "MB") for name, value in resident.items()),
        Figure(PART, "RSS of all, idle (shared pages in each)", sum(resident.values()), "MB"),
        Figure(PART, "PSS of all, idle (shared pages once)", shared_once, "MB", target=420),
    ]
