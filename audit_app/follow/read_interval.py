"""How often to read: at once while little comes, in ticks while much does. Pure but for the clock it is given."""

import time
from collections.abc import Callable


class Pacer:
    """Lets `burst` deliveries through at once and spaces the rest by `interval` seconds."""

    def __init__(self, interval: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._allowance = interval * (burst - 1)
        self._clock = clock
        self._spent_until = 0.0

    def delay(self) -> float:
        """Seconds to wait before the next read, having just delivered."""
        now = self._clock()
        self._spent_until = max(self._spent_until, now) + self._interval
        return max(0.0, self._spent_until - now - self._allowance)
