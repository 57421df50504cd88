"""Writes that must not be lost: retried, with back-off, while the database is away."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ParamSpec, TypeVar

from audit_app.kernel.database import in_db, is_away

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0


async def retry_until_stored(write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `write` until the database stores it, and return its result.

    `write` must be idempotent: the answer to a commit may be lost. Raises all errors but those of a database that is
    away.
    """
    return await run_until_stored(partial(write, *args, **kwargs))


async def run_until_stored(write: Callable[[], T], *, gives_up: Callable[[], bool] = lambda: False) -> T:
    """Call `write` like `retry_until_stored`. gives_up: called before each retry; if True, the last error is raised."""
    return await repeat_until_stored(lambda: in_db(write), gives_up=gives_up)


async def repeat_until_stored(attempt: Callable[[], Awaitable[T]], *, gives_up: Callable[[], bool]) -> T:
    """Repeat a write as `run_until_stored` does. attempt: returns what it waits for."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not is_away(error) or gives_up():
                raise
            logger.error("the database rejects a write, retrying in %.1f s: %s", pause, error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
