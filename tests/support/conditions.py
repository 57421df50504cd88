"""Conditions that a test on an event loop waits for. `wait_for` of `live_server` is the same without a loop."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from audit_app.kernel.database import in_db


async def happens(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Call the condition, a coroutine function or any other, until its value is true. Return that value."""
    async with asyncio.timeout(seconds):
        while True:
            value = condition()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.01)


async def eventually(look: Callable[[], Any], seconds: float = 60) -> Any:
    """Call `look`, which reads the database, until its value is true. Return that value."""
    return await happens(lambda: in_db(look), seconds)
