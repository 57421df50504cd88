"""What a piece of work costs, where a test says that it is little: neither what other threads do meanwhile nor the
collection of whatever earlier tests have left in this process counts."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def costs_less_than(seconds: float) -> Iterator[None]:
    """Fails when the body takes more CPU of its thread."""
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
