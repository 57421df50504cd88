"""A model of what the engine writes and of what a client shows, for the tests of the live view."""

from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from uuid import UUID

from agents_app.events import RUN_STARTED
from audit_app.follow.items import CaughtUp, LiveEntry, PassingEvent
from audit_app.timeline import KeptEvent
from sessions_app.live_view.cursor import Cursor, SessionEvent
from sessions_app.live_view.session_stream import SessionStream
from sessions_app.live_view.viewer import Recall

SESSION = UUID(int=1)
FLUSH = "all streams are gone"


@dataclass(frozen=True)
class Copied:
    """An entry that is in the database alone, because Valkey did not take it."""

    entry: LiveEntry


@dataclass
class World:
    """Everything written so far, in order. parents: of child runs; with any, viewers see those."""

    parents: dict[UUID, UUID] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)
    kept: list[KeptEvent] = field(default_factory=list)
    streams: dict[UUID, list[LiveEntry]] = field(default_factory=dict)
    copies: dict[UUID, LiveEntry] = field(default_factory=dict)
    stored: dict[tuple[UUID, int], str] = field(default_factory=dict)
    attempts: list[str] = field(default_factory=list)

    def write(self, item: Any) -> None:
        self.log.append(item)
        if isinstance(item, KeptEvent):
            self.kept.append(item)
        elif isinstance(item, LiveEntry):
            self.streams.setdefault(item.run_id, []).append(item)
        elif isinstance(item, Copied):
            self.copies[item.entry.run_id] = item.entry
        elif item == FLUSH:
            self.streams.clear()

    def keep(self, type_: str, run_id: UUID | None = None, step: int | None = None, **payload: Any) -> None:
        seq = len(self.kept) + 1
        parent = self.parents.get(run_id) if run_id else None
        self.write(KeptEvent(SESSION, seq, 1000 + seq, type_, run_id, parent, "", step, "system", payload))

    def stream(self, run_id: UUID, position: tuple[int, int], type_: str, step: int | None, **fields: Any) -> None:
        self.write(LiveEntry(run_id, position, type_, step, fields))

    def copy(self, run_id: UUID, position: tuple[int, int], step: int, text: str) -> None:
        self.write(Copied(LiveEntry(run_id, position, "snapshot", step, {"text": text})))

    def announce_execution(self, run_id: UUID, execution_id: str) -> None:
        self.write(PassingEvent("tool.started", run_id, {"execution_id": execution_id, "tool": "echo"}))

    def until(self, moment: int) -> "World":
        """Return the world as it was after that many writes."""
        earlier = World(self.parents, stored=self.stored, attempts=self.attempts)
        for item in self.log[:moment]:
            earlier.write(item)
        return earlier

    def watch(
        self,
        cursor: str = "",
        *,
        stream_is_there: bool = True,
        recall: Recall | None = None,
        with_dead_claims: bool = False,
    ) -> tuple[SessionStream, list[SessionEvent]]:
        """Return a stream that has caught up from the cursor with everything written, as `Viewer` does."""
        place = Cursor.parse(cursor)
        watch = SessionStream(SESSION, place.seq, shows_children=bool(self.parents))
        seen_before = [event for event in self.kept if event.seq <= place.seq]
        starts = [event.run_id for event in seen_before if event.type == RUN_STARTED.name and not event.parent_run_id]
        own = [event for event in seen_before if event.run_id == starts[-1]] if starts else []
        streams = self.streams if stream_is_there else {run_id: [copy] for run_id, copy in self.copies.items()}
        if own and not any(event.ends_run for event in own):
            shown = watch.restore(starts[-1], own, streams.get(starts[-1], []), place)
            if recall:
                recall([SessionEvent.of(event) for event in own], shown)
        ended = {event.run_id for event in self.kept if event.ends_run}
        for child_id in self.parents:
            known = [event for event in seen_before if event.run_id == child_id]
            if known and not any(event.ends_run for event in known):
                watch.restore_child(child_id, known)
        page = self.kept[place.seq :]
        opened = {run_id: stream for run_id, stream in streams.items() if run_id not in ended}
        joined = (stream if with_dead_claims else watch.join(run_id, stream, page) for run_id, stream in opened.items())
        return watch, self.feed(watch, [*chain.from_iterable(joined), *page])

    def feed(self, watch: SessionStream, items: list[Any]) -> list[SessionEvent]:
        found = (item.entry if isinstance(item, Copied) else item for item in items)
        seen = watch.feed(item for item in found if item != FLUSH)
        while watch.wanted:
            seen += watch.supply(self.stored.get(watch.wanted))
        return seen

    def read_again(self, watch: SessionStream) -> list[SessionEvent]:
        """Read the timeline to its end if the stream needs it."""
        if not watch.needs_read:
            return []
        watch.await_read(7)
        return self.feed(watch, [*self.kept[watch.seq :], CaughtUp(7)])


class Screen:
    """The state of a client. Checks the guarantees of `SessionStream` with each event."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.texts: dict[tuple[UUID | None, int | None], str] = {}
        self.closed: set[tuple[UUID | None, int | None]] = set()
        self.seqs: list[int] = []

    @property
    def shown(self) -> dict[tuple[UUID | None, int | None], str]:
        return {place: text for place, text in self.texts.items() if text}

    def copy(self) -> "Screen":
        other = Screen(self.world)
        other.texts, other.closed, other.seqs = deepcopy((self.texts, self.closed, self.seqs))
        return other

    def show(self, *events: SessionEvent) -> "Screen":
        for event in events:
            self._show(event)
        return self

    def _show(self, event: SessionEvent) -> None:
        place = (event.run_id, event.step)
        if event.seq is not None:
            assert event.seq == (self.seqs[-1] if self.seqs else 0) + 1, "a kept event is missing or doubled"
            self.seqs.append(event.seq)
            if "text_length" in event.payload:
                assert self.texts.get(place, "") == self.world.stored.get(place, ""), "closed before it was complete"
                self.closed.add(place)
            return
        assert place not in self.closed, f"{event.type} of a closed step"
        if event.type == "text.delta":
            assert event.payload["offset"] == len(self.texts.get(place, "")), "a gap or an overlap"
            self.texts[place] = self.texts.get(place, "") + event.payload["text"]
        elif event.type == "snapshot":
            self.texts[place] = event.payload["text"]
        elif event.type == "message.reset":
            self.texts[place] = ""
        shown, attempts = self.texts.get(place, ""), self.world.attempts
        assert not attempts or any(text.startswith(shown) for text in attempts), "nobody wrote this"

    def assert_complete(self) -> None:
        assert self.seqs == [event.seq for event in self.world.kept]
        for event in self.world.kept:
            if "text_length" in event.payload:
                place = (event.run_id, event.step)
                assert self.texts.get(place, "") == self.world.stored.get(place, "")
