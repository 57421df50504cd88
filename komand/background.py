"""What runs in the web process beside requests: its sign of life, the reaper's loop and the follow loop.

Started by the first connection, because not every ASGI server tells an application that it starts.
"""

import asyncio
import logging
from contextlib import suppress

from agents_app.runs import reaper
from audit_app import follow, liveness
from audit_app.kernel.database import in_db

logger = logging.getLogger(__name__)

_RESTART_SECONDS = 1.0
_tasks: set[asyncio.Task[None]] = set()


def ensure_started() -> None:
    """Start the loops on the running event loop, once. Cheap to call for every connection."""
    if not _tasks:
        _tasks.add(asyncio.create_task(_run(), name="background"))


async def stop() -> None:
    """End the loops and the sign of life; nothing if they never started."""
    for task in list(_tasks):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    _tasks.clear()
    await follow.current_follower().aclose()
    await in_db(liveness.stop)


async def _run() -> None:
    """The sign of life and the reaper, for ever: an error, of a full disk say, ends one turn of it, never the loop."""
    _tasks.add(asyncio.create_task(liveness.keep_pulse(), name="pulse"))
    while True:
        try:
            await in_db(liveness.start, "web")
            await reaper.loop()
        except Exception:
            logger.exception("what runs beside the requests failed and starts again")
        await asyncio.sleep(_RESTART_SECONDS)
