"""The starter of due schedules, on an engine's loop: a part at a time, so that messages are stored in between."""

import asyncio
import logging
from datetime import UTC, datetime
from uuid import UUID

from django.utils import timezone

from audit_app.kernel import single_holder
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from audit_app.kernel.outage import outages
from sessions_app import hot_queries
from sessions_app.schedules import ticks

logger = logging.getLogger(__name__)

# The start of a schedule that has been handled in this pass, and its id: the next part is after it.
Position = tuple[datetime, UUID]

_BEGIN: Position = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))
_LOCK_SECONDS = 5


async def run() -> None:
    """Start what is due each second until cancelled."""
    starter = Starter()
    while True:
        try:
            await starter.start_due()
        except Exception as error:
            outages.failed(logger, error, "starting schedules failed; retrying in a second")
        await asyncio.sleep(1)


class Starter:
    """The starter of one process. Of several processes one works at a time; a tick is handled once in any case."""

    def __init__(self) -> None:
        self._token = str(new_id())

    async def start_due(self) -> None:
        """Start every schedule that is due, in parts."""
        position: Position | None = _BEGIN
        while position:
            position = await in_db(self.start_part, position)

    def start_part(self, after: Position = _BEGIN) -> Position | None:
        """Start the next schedules after a position. Return the position of the last one, or None if none follow."""
        due = hot_queries.LIST_DUE_SCHEDULES.fetch(after=after[0], after_id=after[1])
        # The lock only avoids duplicate work, so that without Valkey everyone does it.
        if not due or not single_holder.is_held("schedules", self._token, _LOCK_SECONDS, if_away=True):
            return None
        for schedule in due:
            try:
                ticks.handle_due(schedule, timezone.now())
            except Exception:  # one broken schedule must not hold up the others
                logger.exception("schedule %s could not be handled", schedule.pk)
        last = due[-1]
        return (last.next_at, last.pk) if last.next_at and len(due) == hot_queries.STARTED_AT_ONCE else None
