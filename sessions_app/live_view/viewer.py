"""The public interface of the live view, on which every surface builds what it shows live.

- `Viewer` yields the events of one session from a cursor on, stored ones first, then live, without gaps or duplicates.
- `cursor_now` returns the cursor from which to follow a session that is about to be read from the database.
- `wait_until_ended` waits for the end of a run without a thread or a database connection.

Pure modules import `SessionEvent` from `cursor`. Viewers run on the follow loop of their process (`audit_app.follow`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import closing, suppress
from types import TracebackType
from typing import NamedTuple, Self
from uuid import UUID

from agents_app import hot_queries
from agents_app import selectors as agents
from agents_app.events import RUN_STARTED
from audit_app import follow, timeline
from audit_app.follow import Item, LiveEntry, Subscription
from audit_app.follow.items import START
from audit_app.kernel.database import in_db
from audit_app.timeline import KeptEvent
from sessions_app.live_view.cursor import Children, Cursor, SessionEvent, join_pieces
from sessions_app.live_view.session_stream import SessionStream

_EVENTS_A_PAGE = timeline.EVENTS_OF_A_PAGE

FindText = Callable[[UUID, int], str | None]
# Called with the stored events, up to the cursor, of the run that was active there, and with the live events of its
# open step that the client was shown; None if that is unknown.
Recall = Callable[[list[SessionEvent], list[SessionEvent] | None], None]


class Viewer:
    """A subscription to one session.

    `async with Viewer(session_id, cursor) as viewer: async for frame in viewer.frames(): …`

    overflowed: set after `frames` has ended because the client consumed them too slowly. It resumes from its last
    cursor.
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
        children: Children = Children.ASKING,
        with_dead_claims: bool = False,
        open_children: Collection[UUID] | None = None,
    ) -> None:
        """Raises InvalidInput (invalid_cursor).

        cursor: cursor of the last event seen; "" for the whole timeline; "<seq>" for what follows that stored event.
        find_text: returns the stored text of a run's step.
        marks_now: yield an empty frame once everything that existed at the start has been yielded.
        children: which of the events of child runs it yields.
        with_dead_claims: include the text of claims that died, for a client that may have some of it.
        recall: called before the first frame, if a run was active at the cursor.
        open_children: the child runs that were open at the cursor, if the caller knows them.
        """
        self.overflowed = False
        self._session_id = session_id
        self._cursor = Cursor.parse(cursor)
        self._find_text = find_text
        self._marks_now = marks_now
        self._recall = recall
        self._children = children
        self._with_dead_claims = with_dead_claims
        self._open_children = open_children
        self._state = self._stream_from(self._cursor.seq)
        self._streams: dict[UUID, list[LiveEntry]] = {}

    async def __aenter__(self) -> Self:
        self._follower = follow.current_follower()
        with_children = self._children is Children.ALL
        self._subscription = self._follower.subscribe(self._session_id, with_children=with_children)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscription.close()

    async def frames(self) -> AsyncIterator[list[SessionEvent]]:
        """Yield events in batches as they come. Ends on overflow or shutdown only."""
        await self._restore()
        has_joined = False
        while not has_joined:
            page = await in_db(timeline.list_events, self._session_id, after=self._state.seq)
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
        """Bring the state to the cursor without showing anything."""
        active = await in_db(_active_at, self._session_id, self._cursor.seq)
        cursor = self._cursor
        if active.head < self._cursor.seq:
            # The cursor is ahead of the timeline, as after the database was restored: continue from the end.
            self._state = self._stream_from(active.head)
            cursor = Cursor(active.head, None)
        if active.run_id is not None:
            entries = self._streams[active.run_id] = await self._follower.read_stream(active.run_id)
            shown = self._state.restore(active.run_id, active.events, entries, cursor)
            if self._recall is not None:
                self._recall([SessionEvent.of(event) for event in active.events], shown)
        if self._children is Children.ALL:
            await self._restore_children(active.run_id)

    async def _restore_children(self, root_id: UUID | None) -> None:
        child_ids = self._open_children
        if child_ids is None:
            child_ids = await in_db(_find_children_at, self._session_id, root_id, self._state.seq)
        if child_ids:
            for child_id, events in await in_db(_open_among, child_ids, self._state.seq):
                self._state.restore_child(child_id, events)

    def _stream_from(self, seq: int) -> SessionStream:
        return SessionStream(self._session_id, seq, shows_children=self._children is not Children.ASKING)

    async def _join_streams(self, page: list[KeptEvent]) -> list[LiveEntry]:
        """Subscribe to the streams of all open runs at their ends, and return their entries up to there.

        Those of claims that died are left out: a viewer that joins after a crash sees no text of the dead attempt.
        """
        roots, children = set(self._state.open_runs), set(self._state.open_children)
        for event in page:
            open_runs = children if event.parent_run_id else roots
            if event.run_id and event.ends_run:
                open_runs.discard(event.run_id)
            elif event.run_id and event.shows_run_open:
                open_runs.add(event.run_id)
        followed = roots | children if self._children is Children.ALL else roots
        entries: list[LiveEntry] = []
        for run_id in followed:
            stream = self._streams.pop(run_id, None)
            if stream is None:
                stream = await self._follower.read_stream(run_id)
            after = stream[-1].position if stream else START
            self._subscription.watch_run(run_id, after, is_child=run_id in children)
            entries += stream if self._with_dead_claims else self._state.join(run_id, stream, page)
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
    """The state at a cursor.

    head: the last seq of the timeline.
    run_id: the root run that was active at the cursor.
    events: events of that run up to the cursor.
    """

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


def _find_children_at(session_id: UUID, root_id: UUID | None, seq: int) -> set[UUID]:
    """Return the child runs that may have been open at that `seq`.

    root_id: the run that was active; those of other runs are found as long as they are open.
    """
    below = agents.list_descendant_ids(root_id) if root_id else []
    open_rows = hot_queries.LIST_OPEN_CHILD_IDS.rows(conversation_id=session_id) if seq else []
    return {*below, *(run_id for (run_id,) in open_rows)}


def _open_among(child_ids: Collection[UUID], seq: int) -> list[tuple[UUID, list[KeptEvent]]]:
    """Return those of the child runs that were open at that `seq`, each with its events up to there."""
    of_run: dict[UUID, list[KeptEvent]] = {}
    for event in timeline.list_events_of_runs(child_ids, until=seq):
        if event.run_id:
            of_run.setdefault(event.run_id, []).append(event)
    return [(run_id, events) for run_id, events in of_run.items() if not any(event.ends_run for event in events)]


def cursor_now(session_id: UUID) -> str:
    """Return the cursor after all stored events, "0" if there are none. Synchronous.

    Call it before reading what is shown beside it: events in between are then seen twice, never missed.
    """
    return str(timeline.find_head(session_id))


async def wait_until_ended(session_id: UUID, run_id: UUID, seconds: float, *, stops_at: Collection[str] = ()) -> bool:
    """Wait up to that many seconds for the run to end, and return whether it has ended.

    stops_at: types of events of the session that end the wait, too.

    Holds no thread and no database connection while it waits.
    """
    has_overflowed = True
    with suppress(TimeoutError):  # the check below decides
        async with asyncio.timeout(seconds):
            while has_overflowed:  # else the server ends
                with closing(follow.current_follower().subscribe(session_id, live=False)) as subscription:
                    if await _sees_end(subscription, run_id, stops_at):
                        return not stops_at or await in_db(timeline.has_ended, run_id)
                has_overflowed = subscription.overflowed
    return await in_db(timeline.has_ended, run_id)


async def _sees_end(subscription: Subscription, run_id: UUID, stops_at: Collection[str]) -> bool:
    """Return whether the run ended, or an event of these types came, before the subscription ended."""
    while True:
        head, has_ended = await in_db(_head_and_end, subscription.session_id, run_id)
        if has_ended:
            return True
        if subscription.join(head):
            break
    while items := await subscription.take():
        kept = [item for item in items if isinstance(item, KeptEvent)]
        if any((item.run_id == run_id and item.ends_run) or item.type in stops_at for item in kept):
            return True
    return False


def _head_and_end(session_id: UUID, run_id: UUID) -> tuple[int, bool]:
    head = timeline.find_head(session_id)
    return head, timeline.has_ended(run_id)
