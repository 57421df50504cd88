"""The time from `manage.py up` to the first page, in an empty and in a used data folder, and the time to stop."""

from pathlib import Path

from benchmarks.figures import Figure, p50
from benchmarks.processes import Gateway
from benchmarks.scale import Scale

PART = "startup"


def measure(folder: Path, model_url: str, scale: Scale, server: str) -> list[Figure]:
    """Measure after one start that warms the byte code and the file cache."""
    _start(folder / "warm-up", model_url, server)
    first = [_start(folder / f"first-{number}", model_url, server) for number in range(scale.starts)]
    again = [_start(folder / "warm-up", model_url, server) for _ in range(scale.starts)]
    return [
        Figure(PART, "first start: `manage.py up` to the login page, median", _median_start(first), "s", target=8),
        Figure(PART, "later start, median", _median_start(again), "s", target=8),
        Figure(PART, "its end, the slowest", max(gateway.stop_seconds for gateway in [*first, *again]), "s", target=5),
    ]


def _median_start(gateways: list[Gateway]) -> float:
    return p50([gateway.start_seconds for gateway in gateways])


def _start(data_dir: Path, model_url: str, server: str) -> Gateway:
    with Gateway(data_dir, model_url, server=server) as gateway:
        pass
    return gateway
