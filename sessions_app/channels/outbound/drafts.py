"""Previews of unfinished answers in channels. The answer itself is always sent by the sender, once it is stored."""

import asyncio
import logging
from functools import partial
from uuid import UUID

from audit_app import timeline
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.outbound import outbox
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.channels.outbound.preview import Preview
from sessions_app.channels.outbound.rate_limiter import RateLimiter
from sessions_app.channels.sender_names import Names
from sessions_app.conversation.session_key import STORED_CHANNELS
from sessions_app.models import Session

logger = logging.getLogger(__name__)

_MOST_RUNS = 500
# Previews kept of runs that wait for a person. Those of others end, and begin again when their run resumes.
_MOST_PARKED = 50


class Drafts:
    """The previews of one process. All methods belong to its event loop."""

    def __init__(self, owner: UUID, adapters: Adapters, limiter: RateLimiter) -> None:
        self._owner, self._adapters, self._limiter = owner, adapters, limiter
        self._shown: dict[UUID, asyncio.Task[None]] = {}  # oldest first, as are the previews
        self._previews: dict[UUID, Preview] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._names = Names()
        self._refused: dict[UUID, None] = {}  # runs whose platform refused previews, newest last

    def begin(self, run_id: UUID, session_id: UUID, session_key: str) -> None:
        """Show a run that was claimed in this process, if a channel waits for it and no task shows it yet."""
        is_stored = session_key.partition(":")[0] in STORED_CHANNELS
        if is_stored or run_id in self._shown or run_id in self._refused:
            return
        self._end_parked()
        if len(self._shown) < _MOST_RUNS:
            task = self._shown[run_id] = asyncio.create_task(self._show(run_id, session_id))
            task.add_done_callback(partial(self._forget, run_id))

    async def aclose(self) -> None:
        """End all previews, so that other processes can take them over."""
        tasks = list(self._shown.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._ending, return_exceptions=True)

    def _end_parked(self) -> None:
        """End the previews of runs that wait for a person, except the newest: they may wait for days."""
        parked = [run_id for run_id, preview in self._previews.items() if preview.text.waits_for_person]
        for run_id in parked[: max(len(parked) - _MOST_PARKED, 0)]:
            del self._previews[run_id]
            task = self._shown.pop(run_id)
            self._ending.add(task)
            task.cancel()

    def _forget(self, run_id: UUID, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if self._shown.get(run_id) is task:
            del self._shown[run_id]

    async def _show(self, run_id: UUID, session_id: UUID) -> None:
        try:
            found = await in_db(_find_destination, run_id, session_id)
            if found is None:
                return
            session, destination, cursor = found
            adapter = self._adapters.get(destination.account)
            preview = Preview(self._owner, self._limiter, adapter, destination, session, run_id)
            self._previews[run_id] = preview
            try:
                await preview.run(cursor)
            finally:
                if self._previews.get(run_id) is preview:
                    del self._previews[run_id]
            if adapter.finds_names():
                is_group = destination.target.chat.type != "direct"
                await self._names.complete(destination.account, adapter, run_id, is_group=is_group)
            if preview.is_refused:
                self._refused[run_id] = None
                if len(self._refused) > _MOST_RUNS:
                    self._refused.pop(next(iter(self._refused)))
        except AppError as error:
            logger.info("no preview of run %s: %s", run_id, error.message)
        except Exception:
            logger.exception("the preview of run %s failed", run_id)


def _find_destination(run_id: UUID, session_id: UUID) -> tuple[Session, Destination, str] | None:
    """Return the session, the answer's destination and the cursor before the run's first event; None if none."""
    session = Session.objects.select_related("agent").get(pk=session_id)
    destination = outbox.find_destination(session, run_id)
    if destination is None or not destination.account.is_enabled:
        return None
    events = timeline.list_events_of_run(run_id, until=timeline.find_head(session_id))
    first = min((event.seq for event in events), default=1)
    return session, destination, str(first - 1) if first > 1 else ""
