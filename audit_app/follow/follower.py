"""The follower of one web process: shares one read of Valkey and one of the timeline among all subscriptions."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from audit_app import timeline
from audit_app.follow.copy_reader import CopyReader
from audit_app.follow.items import START, CaughtUp, Hint, Item, LiveEntry, Position
from audit_app.follow.stream_reader import StreamReader
from audit_app.follow.subscription import Subscription
from audit_app.kernel import liveness
from audit_app.kernel.database import in_db
from audit_app.timeline import KeptEvent

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
# A stream that is silent for so long may be one that cannot be read.
_SIGHT_SECONDS = 0.5


@dataclass
class _Session:
    """A followed session.

    seq: the last stored event that was delivered, None until a subscription has joined.
    hinted: the highest `seq` of a hint.
    runs: runs whose streams are read, and whether they are child runs.
    wants_caught_up: a subscription waits for a CaughtUp.
    """

    subscriptions: set[Subscription] = field(default_factory=set)
    seq: int | None = None
    hinted: int = 0
    runs: dict[UUID, bool] = field(default_factory=dict)
    wants_caught_up: bool = False

    def reads(self, *, is_child: bool) -> bool:
        """Return whether a subscription wants the streams of root runs, or of child runs."""
        return any(one.live and (one.with_children or not is_child) for one in self.subscriptions)


class Follower:
    """The follower of one event loop, created by `current_follower()`. Starts with the first subscription.

    After hints it reads the new events of all named sessions in one query; a poll each second finds lost hints. The
    stream of a run is read from the run's first event to its end; that of a child run if a subscription wants it.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._sessions: dict[UUID, _Session] = {}
        self._session_of_run: dict[UUID, UUID] = {}
        self._moved: set[UUID] = set()
        self._has_moved = asyncio.Event()
        self._reads_begun = 0
        self._reader = StreamReader(self._on_entries, self._on_hints, lambda: self._mark_moved(self._sessions))
        self._copies = CopyReader(lambda copy: self._deliver_text(copy.run_id, [copy]))
        self._tasks: list[asyncio.Task[None]] = []

    def subscribe(self, session_id: UUID, *, live: bool = True, with_children: bool = False) -> Subscription:
        """Start to collect the session's items.

        live: streams of its runs and passing events are included.
        with_children: streams of child runs are included.

        Stored events come once the subscription has joined; see `Subscription.join`.
        """
        if not self._tasks:
            loop = asyncio.get_running_loop()
            works = (self._reader.run, self._read_news, self._poll_heads, self._check_sight)
            self._tasks = [loop.create_task(work()) for work in works]
        subscription = Subscription(self, session_id, live=live, with_children=with_children)
        self._sessions.setdefault(session_id, _Session()).subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        session = self._sessions.get(subscription.session_id)
        if session is None:
            return
        session.subscriptions.discard(subscription)
        for run_id, is_child in list(session.runs.items()):
            if not session.reads(is_child=is_child):
                self._unwatch_run(session, run_id)
        if not session.subscriptions:
            del self._sessions[subscription.session_id]

    def join(self, session_id: UUID, seq: int) -> bool:
        session = self._sessions[session_id]
        if session.seq is None:
            session.seq = seq
            if session.hinted > seq:
                self._mark_moved([session_id])
        return session.seq <= seq

    def watch_run(self, session_id: UUID, run_id: UUID, after: Position, *, is_child: bool = False) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.reads(is_child=is_child) and run_id not in session.runs:
            session.runs[run_id] = is_child
            self._session_of_run[run_id] = session_id
            self._reader.watch(run_id, after)
        if session is not None and run_id in session.runs:
            self._copies.watch(run_id)

    def request_read(self, session_id: UUID) -> int:
        session = self._sessions.get(session_id)
        if session is not None:
            session.wants_caught_up = True
            self._mark_moved([session_id])
        return self._reads_begun + 1

    async def read_stream(self, run_id: UUID) -> list[LiveEntry]:
        """Return the entries of the run's stream, oldest first; while Valkey is unavailable, the copy of its text."""
        entries = await self._reader.read_all(run_id)
        return await self._copies.find(run_id) if entries is None else entries

    async def aclose(self) -> None:
        self.is_closed = True
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        for session in list(self._sessions.values()):
            for subscription in list(session.subscriptions):
                subscription.close()
        await self._reader.aclose()

    def _unwatch_run(self, session: _Session, run_id: UUID) -> None:
        session.runs.pop(run_id, None)
        self._session_of_run.pop(run_id, None)
        self._reader.unwatch(run_id)
        self._copies.unwatch(run_id)

    def _mark_moved(self, session_ids: Iterable[UUID]) -> None:
        self._moved.update(session_ids)
        self._has_moved.set()

    # Callbacks of the stream reader.

    def _on_entries(self, run_id: UUID, entries: Sequence[LiveEntry]) -> None:
        self._copies.note_entries(run_id)
        self._deliver_text(run_id, entries)

    def _on_hints(self, hints: Sequence[Hint]) -> None:
        passing: dict[UUID, list[Item]] = {}
        for hint in hints:
            session = self._sessions.get(hint.session_id)
            if session is None:
                continue
            if hint.passing:
                passing.setdefault(hint.session_id, []).append(hint.passing)
            else:
                session.hinted = max(session.hinted, hint.seq)
                if session.seq is not None and hint.seq > session.seq:
                    self._mark_moved([hint.session_id])
        for session_id, batch in passing.items():
            self._deliver_live(self._sessions[session_id], batch)

    def _deliver_text(self, run_id: UUID, entries: Sequence[LiveEntry]) -> None:
        session = self._sessions.get(self._session_of_run[run_id]) if run_id in self._session_of_run else None
        if session and entries:
            self._deliver_live(session, entries, is_child=session.runs.get(run_id, False))

    @staticmethod
    def _deliver_live(session: _Session, batch: Sequence[Item], *, is_child: bool = False) -> None:
        for subscription in session.subscriptions:
            if subscription.live and (subscription.with_children or not is_child):
                subscription.put(batch)

    # Reads of the timeline.

    async def _read_news(self) -> None:
        while True:
            await self._has_moved.wait()
            self._has_moved.clear()
            moved, self._moved = self._moved, set()
            self._reads_begun += 1
            read = self._reads_begun
            waiting = {session_id for session_id in moved if self._wants_caught_up(session_id)}
            try:
                events = await in_db(timeline.list_news, self._positions(moved))
            except Exception as error:  # whatever it is: without this loop no viewer sees anything
                logger.warning("cannot read the timeline: %r", error)
                await asyncio.sleep(_POLL_SECONDS)
                self._mark_moved(moved)
                for session_id in waiting & self._sessions.keys():
                    self._sessions[session_id].wants_caught_up = True
            else:
                self._deliver_news(events, {session_id: CaughtUp(read) for session_id in waiting})

    def _wants_caught_up(self, session_id: UUID) -> bool:
        session = self._sessions.get(session_id)
        if session is None or not session.wants_caught_up:
            return False
        session.wants_caught_up = False
        return True

    def _positions(self, session_ids: Iterable[UUID]) -> dict[UUID, int]:
        followed = ((session_id, self._sessions.get(session_id)) for session_id in session_ids)
        return {key: session.seq for key, session in followed if session is not None and session.seq is not None}

    def _deliver_news(self, events: Sequence[KeptEvent], caught_up: dict[UUID, CaughtUp]) -> None:
        batches: dict[UUID, list[Item]] = {}
        for event in events:
            session = self._sessions.get(event.session_id)
            # While the database was read, all subscriptions may have ended, and another one begun.
            if session is not None and session.seq is not None and event.seq == session.seq + 1:
                session.seq = event.seq
                batches.setdefault(event.session_id, []).append(event)
                self._follow_run(session, event)
        for session_id, item in caught_up.items():
            batches.setdefault(session_id, []).append(item)
        for session_id, batch in batches.items():
            session = self._sessions.get(session_id)
            for subscription in session.subscriptions if session else ():
                subscription.put(batch)

    def _follow_run(self, session: _Session, event: KeptEvent) -> None:
        if event.run_id is None:
            return
        if event.ends_run:
            self._unwatch_run(session, event.run_id)
        elif event.shows_run_open:
            self.watch_run(event.session_id, event.run_id, START, is_child=event.parent_run_id is not None)

    async def _check_sight(self) -> None:
        """While streams are silent, check that they can be read. Have workers store the text while they cannot."""
        was_blind = False
        while True:
            await asyncio.sleep(_SIGHT_SECONDS)
            is_blind = self._copies.has_silent_runs(_SIGHT_SECONDS) and not await self._reader.can_read()
            if is_blind != was_blind:
                liveness.set_blind(is_blind)
                was_blind = is_blind

    async def _poll_heads(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if not self._sessions:
                continue
            try:
                heads = await in_db(timeline.list_heads, list(self._sessions))
                await self._copies.look()
            except Exception as error:  # as above
                logger.warning("cannot read the heads of the timelines, or copies of live text: %r", error)
            else:
                known = self._positions(heads)
                self._mark_moved(session_id for session_id, seq in known.items() if heads[session_id] > seq)


_followers: dict[asyncio.AbstractEventLoop, Follower] = {}


def current_follower() -> Follower:
    """Return the follower of the running event loop. A web process has one loop."""
    loop = asyncio.get_running_loop()
    found = _followers.get(loop)
    if found is None or found.is_closed:
        for ended in [known for known in _followers if known.is_closed()]:
            del _followers[ended]
        found = _followers[loop] = Follower()
    return found
