"""Shows answers under way in their channels. What is shown is a preview; the answer itself always goes out by the
sender, once the run has stored it."""

import asyncio
import logging
from uuid import UUID

from audit_app import timeline
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from sessions_app.accounts import Adapters
from sessions_app.delivery import planning
from sessions_app.delivery.pacing import Pacing
from sessions_app.delivery.planning import Destination
from sessions_app.delivery.preview import Preview
from sessions_app.models import Session

logger = logging.getLogger(__name__)

_MOST_RUNS = 500


class Drafts:
    """The previews of one process. All methods belong to its event loop."""

    def __init__(self, owner: UUID, adapters: Adapters, pacing: Pacing) -> None:
        self._owner = owner
        self._adapters = adapters
        self._pacing = pacing
        self._shown: dict[UUID, asyncio.Task[None]] = {}
        self._refused: dict[UUID, None] = {}  # whose platform wants no more of it, the newest last

    def begin(self, run_id: UUID, session_id: UUID, session_key: str) -> None:
        """A run was claimed here: show it, if a channel waits for it and nobody shows it yet."""
        is_stored = session_key.partition(":")[0] in planning.STORED_CHANNELS
        if is_stored or run_id in self._shown or run_id in self._refused or len(self._shown) >= _MOST_RUNS:
            return
        task = self._shown[run_id] = asyncio.create_task(self._show(run_id, session_id))
        task.add_done_callback(lambda _: self._shown.pop(run_id, None))

    async def aclose(self) -> None:
        """Let go of all previews, so that others may go on with them."""
        tasks = list(self._shown.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _show(self, run_id: UUID, session_id: UUID) -> None:
        try:
            found = await in_db(_find_destination, run_id, session_id)
            if found is None:
                return
            session, destination, cursor = found
            adapter = self._adapters.get(destination.account)
            preview = Preview(self._owner, self._pacing, adapter, destination, session, run_id)
            await preview.run(cursor)
            if preview.is_refused:
                self._refused[run_id] = None
                if len(self._refused) > _MOST_RUNS:
                    self._refused.pop(next(iter(self._refused)))
        except AppError as error:
            logger.info("run %s is not shown while it works: %s", run_id, error.message)
        except Exception:
            logger.exception("showing run %s broke off", run_id)


def _find_destination(run_id: UUID, session_id: UUID) -> tuple[Session, Destination, str] | None:
    """Where a run's answer goes, and the cursor before the run's first event; None when nowhere."""
    session = Session.objects.select_related("agent").get(pk=session_id)
    destination = planning.find_destination(session, run_id)
    if destination is None or not destination.account.is_enabled:
        return None
    events = timeline.list_events_of_run(run_id, until=timeline.find_head(session_id))
    first = min((event.seq for event in events), default=1)
    return session, destination, str(first - 1) if first > 1 else ""
