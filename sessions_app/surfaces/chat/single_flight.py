"""What is the same for all viewers of this process: whoever needs it first has it made, the others wait for that."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Keeps the newest `kept` values by key. What is empty is told to those who wait, and not kept."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._made: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, asyncio.Future[T]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """The value of that key. Raises what `make` raises, to everybody who waits for it."""
        if key in self._made:
            return self._made[key]
        making = self._making.get(key)
        if making is None or making.get_loop() is not asyncio.get_running_loop():
            making = self._making[key] = asyncio.ensure_future(self._make(key, make))
        # Whoever leaves must not take it from the others.
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
