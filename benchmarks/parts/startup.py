"""How long from `manage.py up` to the first page: with nothing there yet, and with a data folder in use."""

from pathlib import Path

from benchmarks.figures import Figure, p50
from benchmarks.processes import Gateway
from benchmarks.scale import Scale

PART = "startup"


def measure(folder: Path, model_url: str, scale: Scale, server: str) -> list[Figure]:
    """One start before the measured ones warms the byte code and the file cache: a warm install."""
    _start(folder / "warm-up", model_url, server)
    first = [_start(folder / f"first-{number}", model_url, server) for number in range(scale.starts)]
    again = [_start(folder / "warm-up", model_url, server) for _ in range(scale.starts)]
    return [
        Figure(PART, "first start: `manage.py up` to the login page, median", p50(first), "s", target=8),
        Figure(PART, "later start, median", p50(again), "s", target=8),
    ]


def _start(data_dir: Path, model_url: str, server: str) -> float:
    with Gateway(data_dir, model_url, server=server) as gateway:
        return gateway.start_seconds
