"""Limit on the messages that this process stores at a time.

All database work of a process waits in one queue. Without the limit, fifty messages that arrive together would all be
stored before the first of their viewers could read anything, though the first of them is being answered already.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from audit_app.kernel.database import in_db

_MOST_AT_ONCE = 2

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
T = TypeVar("T")


async def store_message(store: Callable[..., T], *arguments: Any, finish_on_cancel: bool = False) -> T:
    """Run the synchronous `store` with `in_db` as soon as one of the slots is free, and return its result.

    finish_on_cancel: a caller that is cancelled while its message is being stored waits for that before the
    cancellation goes on, so that it can undo or record what was stored. Otherwise it leaves at once.
    """
    async with _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_MOST_AT_ONCE)):
        if not finish_on_cancel:
            return await in_db(store, *arguments)
        storing = asyncio.ensure_future(in_db(store, *arguments))
        try:
            return await asyncio.shield(storing)
        except asyncio.CancelledError:
            await storing
            raise
