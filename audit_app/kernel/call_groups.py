"""Calls in the database's threads that are made together, so that they share one transaction."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from audit_app.kernel.database import in_db, is_away

T = TypeVar("T")
R = TypeVar("R")

_MOST = 50  # of a group, which blocks all other writers of SQLite


class CallGroups(Generic[T, R]):
    """Groups the calls of a function: those that come while a call is under way are made together by the next one.

    function: called with the items of a group in the order in which they came; returns a result for each. It owns one
        transaction: if it raises, nothing is stored.
    key: items with different keys are in different groups, which do not wait for each other.
    """

    def __init__(
        self, function: Callable[[Sequence[T]], Sequence[R]], key: Callable[[T], Hashable] = lambda item: None
    ) -> None:
        self._function = function
        self._key = key
        self._waiting: dict[Hashable, list[tuple[T, asyncio.Future[R]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, item: T) -> R:
        """Return the result for an item. Raises what the function raises. Only on one event loop."""
        key = self._key(item)
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if key in self._waiting:
            self._waiting[key].append((item, result))
        else:
            self._waiting[key] = [(item, result)]
            task = asyncio.create_task(self._call_all(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await result

    async def _call_all(self, key: Hashable) -> None:
        while group := self._waiting[key]:
            self._waiting[key] = group[_MOST:]
            await self._call(group[:_MOST])
        del self._waiting[key]

    async def _call(self, group: Sequence[tuple[T, "asyncio.Future[R]"]]) -> None:
        try:
            results = await in_db(self._function, [item for item, _ in group])
        except BaseException as error:  # also of a loop that ends: nobody may wait for ever
            if len(group) > 1 and isinstance(error, Exception) and not is_away(error):
                for each in group:  # one of them must not be the fault of the others
                    await self._call([each])
                return
            for _, result in group:
                if not result.done():
                    result.set_exception(error)
            return
        for (_, result), found in zip(group, results, strict=True):
            if not result.done():
                result.set_result(found)
