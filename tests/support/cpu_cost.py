"""A limit on the CPU time of a block. Other threads and garbage collection do not count."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def costs_less_than(seconds: float) -> Iterator[None]:
    """Raise AssertionError if the block takes more CPU time of its thread."""
    was_enabled = gc.isenabled()
    gc.disable()
    began = time.thread_time()
    try:
        yield
        taken = time.thread_time() - began
    finally:
        if was_enabled:
            gc.enable()
    assert taken < seconds, f"{taken:.2f} s of CPU"
