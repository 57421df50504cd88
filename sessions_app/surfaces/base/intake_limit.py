"""Limit on the messages that this process stores at a time.

All database work of a process waits in one queue. Without the limit, fifty messages that arrive together would all be
stored before the first of their viewers could read anything, though the first of them is being answered already.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from audit_app.kernel.database import in_db, in_slow_thread

_MOST_AT_ONCE = 2
# How PDF and ZIP begin in base64, and the field that names a file stored here.
_DOCUMENTS = (b"JVBERi", b"UEsDB", b"file_id")
_ESCAPED_LETTERS = re.compile(rb"\\u00[4-7]")  # which may hide them

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
T = TypeVar("T")


def may_have_documents(message: object) -> bool:
    """Return whether a message, in JSON or read from it, may contain documents, which take seconds to read."""
    body = repr(message).encode() if isinstance(message, Mapping) else message
    if not isinstance(body, bytes):
        return False
    return any(mark in body for mark in _DOCUMENTS) or (b"\\u00" in body and bool(_ESCAPED_LETTERS.search(body)))


async def store_message(
    store: Callable[..., T], *arguments: Any, finish_on_cancel: bool = False, is_slow: bool = False
) -> T:
    """Run the synchronous `store` with `in_db` as soon as one of the slots is free, and return its result.

    finish_on_cancel: a caller that is cancelled while its message is being stored waits for that before the
    cancellation goes on, so that it can undo or record what was stored. Otherwise it leaves at once.
    is_slow: it may read documents, as it does if an argument is a message that may have some. Nothing else waits for
        it: it has a thread of its own, and no slot.
    """
    if is_slow or any(map(may_have_documents, arguments)):
        return await _ended(in_slow_thread(store, *arguments), finish_on_cancel)
    async with _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_MOST_AT_ONCE)):
        return await _ended(in_db(store, *arguments), finish_on_cancel)


async def _ended(storing: Coroutine[Any, Any, T], finish_on_cancel: bool) -> T:
    if not finish_on_cancel:
        return await storing
    task = asyncio.ensure_future(storing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
