"""A circuit breaker for servers that callers can do without."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SLOW_SECONDS = 0.5
_PAUSE_SECONDS = 5.0


class Breaker:
    """After a slow failure, the server is not used for some seconds. Safe for several threads.

    slow_seconds: the duration of a failure from which on it opens. A faster failure delays no caller.
    """

    def __init__(self, *, slow_seconds: float = _SLOW_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._slow_seconds = slow_seconds
        self._clock = clock
        self._open_until = float("-inf")

    @property
    def is_open(self) -> bool:
        """Return whether the server must not be used now."""
        return self._clock() < self._open_until

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """Use no server within. For a command that knows that none runs."""
        before, self._open_until = self._open_until, float("inf")
        try:
            yield
        finally:
            self._open_until = before

    @contextmanager
    def watch(self) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        except Exception:
            now = self._clock()
            if now - began >= self._slow_seconds:
                self._open_until = now + _PAUSE_SECONDS
            raise
