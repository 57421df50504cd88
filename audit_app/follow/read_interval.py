"""The interval of reads: none while little arrives, ticks while much does."""

import time
from collections.abc import Callable


class Pacer:
    """A token bucket: allows `burst` deliveries at once and one more every `interval` seconds."""

    def __init__(self, interval: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._allowance = interval * (burst - 1)
        self._clock = clock
        self._spent_until = 0.0

    def delay(self) -> float:
        """Count a delivery and return the seconds to wait before the next read."""
        now = self._clock()
        self._spent_until = max(self._spent_until, now) + self._interval
        return max(0.0, self._spent_until - now - self._allowance)
