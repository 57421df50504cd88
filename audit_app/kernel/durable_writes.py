"""Writes that must not be lost: while the database takes none they wait and are tried again."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from audit_app.kernel.database import in_db, is_away

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0


async def retry_until_stored(write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `write` returns, once the database takes it. It may be called again after it was stored: its row's guards
    must see to that. Raises what is no matter of the database being away."""
    return await run_until_stored(partial(write, *args, **kwargs))


async def run_until_stored(write: Callable[[], T], *, gives_up: Callable[[], bool] = lambda: False) -> T:
    """Call `write` until the database takes it. gives_up: asked before each further try; True raises the last error."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await in_db(write)
        except Exception as error:
            if not is_away(error) or gives_up():
                raise
            logger.error("the database does not take a write, trying again in %.1f s: %s", pause, error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
