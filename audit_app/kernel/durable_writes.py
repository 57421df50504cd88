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


async def persist(write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `write` returns, once the database takes it. It may be called again after it was stored: its row's guards
    must see to that. Raises what is no matter of the database being away."""
    return await insist(partial(write, *args, **kwargs))


async def insist(write: Callable[[], T], *, gives_up: Callable[[], bool] = lambda: False) -> T:
    """As `persist`. gives_up: asked before each further try; when it is true, this raises why nothing was taken."""
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
