"""Leaves a server alone for a while after it failed, for those who can do without it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SLOW_SECONDS = 0.5
_PAUSE_SECONDS = 5.0


class Breaker:
    """Safe for several threads.

    slow_seconds: a failure that took as long opens it. One that comes at once holds up nobody, and the server may be
    back at once too.
    """

    def __init__(self, *, slow_seconds: float = _SLOW_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._slow_seconds = slow_seconds
        self._clock = clock
        self._open_until = float("-inf")

    @property
    def is_open(self) -> bool:
        """Whether the server is to be left alone."""
        return self._clock() < self._open_until

    @contextmanager
    def watch(self) -> Iterator[None]:
        """The block asks the server."""
        began = self._clock()
        try:
            yield
        except Exception:
            now = self._clock()
            if now - began >= self._slow_seconds:
                self._open_until = now + _PAUSE_SECONDS
            raise
