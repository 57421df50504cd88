"""Single flight: concurrent requests for one value of this process wait for one computation."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """A cache of the newest `kept` values, with single flight by key. Empty values are returned, but not kept."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._made: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, asyncio.Future[T]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Return the value of the key, from `make` if it is not kept. An error of `make` is raised to all who wait."""
        if key in self._made:
            return self._made[key]
        making = self._making.get(key)
        if making is None or making.get_loop() is not asyncio.get_running_loop():
            making = self._making[key] = asyncio.ensure_future(self._make(key, make))
        # A cancelled caller must not cancel it for the others.
        return await asyncio.shield(making)

    async def _make(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        try:
            value = await make()
        finally:
            del self._making[key]
        if value:
            self._made[key] = value
            if len(self._made) > self._kept:
                self._made.popitem(last=False)
        return value
