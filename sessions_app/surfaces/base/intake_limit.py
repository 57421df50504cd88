"""Lets few messages at a time be taken in by one process, so that its viewers' reads need not wait behind a crowd.

The database door is one queue: fifty messages that arrive at once would all be stored before the first of their
viewers could look anything up, though the first of them is being answered already.
"""

import asyncio
from weakref import WeakKeyDictionary

_AT_ONCE = 2

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def slot() -> asyncio.Semaphore:
    """To be held (`async with slot():`) while a message is being taken in."""
    return _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE))
