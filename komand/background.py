"""Background loops of the web process: heartbeat, reaper and follower.

The server starts them with itself, or else its first connection: not every ASGI server implements lifespan events.
"""

import asyncio
import logging
from contextlib import suppress

from agents_app.runs import reaper
from audit_app import follow
from audit_app.kernel import liveness
from audit_app.kernel.database import in_db
from audit_app.kernel.outage import outages

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
    """Keep the heartbeat and the reaper running. An error, such as a full disk, ends one pass, never the loop."""
    _tasks.add(asyncio.create_task(liveness.keep_pulse(), name="pulse"))
    while True:
        try:
            await in_db(liveness.start, "web")
            await reaper.loop()
        except Exception as error:
            outages.failed(logger, error, "a background loop failed and is restarted")
        await asyncio.sleep(_RESTART_SECONDS)
