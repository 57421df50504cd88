"""The door to watching sessions: what every surface that shows something live is built on."""

import asyncio
from uuid import UUID

from audit_app import follow, timeline
from audit_app.follow import Subscription
from audit_app.kernel.database import in_db
from audit_app.timeline import KeptEvent
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer

__all__ = ["SessionEvent", "Viewer", "cursor_now", "wait_until_ended"]


def cursor_now(session_id: UUID) -> str:
    """The cursor after everything kept so far, "0" when nothing was. Synchronous.

    Take it before reading what is shown beside it: what happens in between is then seen twice, never missed.
    """
    return str(timeline.find_head(session_id))


async def wait_until_ended(session_id: UUID, run_id: UUID, seconds: float) -> bool:
    """Wait until the run is over, at most that long. False: it still goes on.

    Holds no thread and no database connection while it waits.
    """
    has_overflowed = True
    try:
        async with asyncio.timeout(seconds):
            while has_overflowed:  # else the server ends
                subscription = follow.current_follower().subscribe(session_id, live=False)
                try:
                    if await _sees_end(subscription, run_id):
                        return True
                finally:
                    subscription.close()
                has_overflowed = subscription.overflowed
    except TimeoutError:
        pass  # the last look below decides
    return await in_db(timeline.has_ended, run_id)


async def _sees_end(subscription: Subscription, run_id: UUID) -> bool:
    """False when the subscription is over before the run is."""
    while True:
        head, has_ended = await in_db(_look, subscription.session_id, run_id)
        if has_ended:
            return True
        if subscription.join(head):
            break
    while items := await subscription.take():
        if any(isinstance(item, KeptEvent) and item.run_id == run_id and item.ends_run for item in items):
            return True
    return False


def _look(session_id: UUID, run_id: UUID) -> tuple[int, bool]:
    head = timeline.find_head(session_id)
    return head, timeline.has_ended(run_id)
