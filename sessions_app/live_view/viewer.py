"""One watcher of one session: replays what it has not seen, then goes on live, on the process's follower."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import NamedTuple, Self
from uuid import UUID

from agents_app import selectors as agents
from agents_app.events import RUN_STARTED
from audit_app import follow, timeline
from audit_app.follow import Item, LiveEntry, Subscription
from audit_app.follow.items import START
from audit_app.kernel.database import in_db
from audit_app.timeline import KeptEvent
from sessions_app.live_view.cursor import Cursor, SessionEvent, join_pieces
from sessions_app.live_view.session_stream import SessionStream

_EVENTS_A_PAGE = 500

FindText = Callable[[UUID, int], str | None]
# Of the run that was active at the cursor: its kept events until there, and the live facts of its open step that the
# watcher was shown, None when nobody can tell.
Recall = Callable[[list[SessionEvent], list[SessionEvent] | None], None]


class Viewer:
    """`async with Viewer(session_id, cursor) as viewer: async for frame in viewer.frames(): …`

    overflowed: the watcher took its frames too slowly and was let go; it resumes from the last cursor it has.
    Holds no thread and no database connection while it waits.
    """

    def __init__(
        self,
        session_id: UUID,
        cursor: str = "",
        *,
        find_text: FindText = agents.find_step_text,
        marks_now: bool = False,
        recall: Recall | None = None,
    ) -> None:
        """cursor: of the last fact seen; "" for the whole timeline; "<seq>" for what follows that kept event.

        find_text: the stored text of a run's step; marks_now: an empty frame says that everything there was has been
        given out, and what follows is new; recall: called before the first frame, if a run was active at the cursor.
        Raises InvalidInput for a cursor that is not one of ours.
        """
        self.overflowed = False
        self._session_id = session_id
        self._cursor = Cursor.parse(cursor)
        self._find_text = find_text
        self._marks_now = marks_now
        self._recall = recall
        self._state = SessionStream(session_id, self._cursor.seq)
        self._streams: dict[UUID, list[LiveEntry]] = {}

    async def __aenter__(self) -> Self:
        self._follower = follow.current_follower()
        self._subscription = self._follower.subscribe(self._session_id)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscription.close()

    async def frames(self) -> AsyncIterator[list[SessionEvent]]:
        """What there is to see, all that is there at once as one list, for ever; ends on overflow or shutdown."""
        await self._restore()
        has_joined = False
        while not has_joined:
            page = await in_db(timeline.list_events, self._session_id, after=self._state.seq, limit=_EVENTS_A_PAGE)
            position = page[-1].seq if page else self._state.seq
            has_joined = len(page) < _EVENTS_A_PAGE and self._subscription.join(position)
            entries = await self._join_streams(page) if has_joined else []
            if frame := await self._see([*entries, *page]):
                yield frame
        if self._marks_now:
            yield []
        while items := await self._subscription.take():
            if frame := await self._see(items):
                yield frame
        self.overflowed = self._subscription.overflowed

    async def _restore(self) -> None:
        """Bring the state to where the cursor is, showing nothing."""
        active = await in_db(_active_at, self._session_id, self._cursor.seq)
        live = self._cursor.live
        if active.head < self._cursor.seq:
            # A cursor from the future, say after the database was restored: all we can do is to go on from here.
            self._state, live = SessionStream(self._session_id, active.head), None
        if active.run_id is not None:
            entries = self._streams[active.run_id] = await self._follower.read_stream(active.run_id)
            shown = self._state.restore(active.run_id, active.events, entries, live)
            if self._recall is not None:
                self._recall([SessionEvent.of(event) for event in active.events], shown)

    async def _join_streams(self, page: Iterable[KeptEvent]) -> list[LiveEntry]:
        """Have the streams of all open runs followed from where they are now; returns what they hold."""
        open_runs = set(self._state.open_runs)
        for event in page:
            if event.run_id and event.ends_run:
                open_runs.discard(event.run_id)
            elif event.run_id and event.shows_run_open:
                open_runs.add(event.run_id)
        entries: list[LiveEntry] = []
        for run_id in open_runs:
            stream = self._streams.pop(run_id, None)
            if stream is None:
                stream = await self._follower.read_stream(run_id)
            self._subscription.watch_run(run_id, stream[-1].position if stream else START)
            entries += stream
        return entries

    async def _see(self, items: Iterable[Item]) -> list[SessionEvent]:
        state = self._state
        seen = state.feed(items)
        while state.wanted is not None:
            seen += state.supply(await in_db(self._find_text, *state.wanted))
        if state.needs_read:
            state.await_read(self._subscription.request_read())
        return join_pieces(seen)


class _Active(NamedTuple):
    """head: the timeline's last seq; run_id: the root run that was active at the cursor; events: its own until then."""

    head: int
    run_id: UUID | None
    events: list[KeptEvent]


def _active_at(session_id: UUID, seq: int) -> _Active:
    head = timeline.find_head(session_id)
    started = timeline.find_last(session_id, RUN_STARTED.name, until=min(seq, head)) if seq else None
    if started is None or started.run_id is None:
        return _Active(head, None, [])
    events = timeline.list_events_of_run(started.run_id, until=min(seq, head))
    if any(event.ends_run for event in events):
        return _Active(head, None, [])
    return _Active(head, started.run_id, events)


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
