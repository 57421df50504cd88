"""A token bucket. Reads the monotonic clock, or the one it is given."""

import time
from collections.abc import Callable


class Bucket:
    """A bucket of `capacity` tokens, initially full, that refills by `per_second`."""

    def __init__(self, capacity: float, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._per_second = per_second
        self._clock = clock
        self._level = capacity
        self._at = clock()

    def take(self, amount: float) -> bool:
        """Take so many tokens. Returns False, and takes none, if there are fewer."""
        now = self._clock()
        self._level = min(self._capacity, self._level + (now - self._at) * self._per_second)
        self._at = now
        if amount > self._level:
            return False
        self._level -= amount
        return True
