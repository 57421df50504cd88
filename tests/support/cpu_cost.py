"""The CPU time of a block. Other threads and garbage collection do not count."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def costs_less_than(seconds: float) -> Iterator[None]:
    """Raise AssertionError if the block takes more CPU time of its thread."""
    with _measured() as taken:
        yield
    assert taken[0] < seconds, f"{taken[0]:.2f} s of CPU"


def seconds_of(function: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    with _measured() as taken:
        function()
    return taken[0]


@contextmanager
def _measured() -> Iterator[list[float]]:
    taken: list[float] = []
    was_enabled = gc.isenabled()
    gc.disable()
    began = time.thread_time()
    try:
        yield taken
        taken.append(time.thread_time() - began)
    finally:
        if was_enabled:
            gc.enable()
