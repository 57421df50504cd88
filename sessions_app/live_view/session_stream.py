"""The merge of stored events and live entries of one session for one viewer. It does no I/O and reads no clock.

Feed it items in the order in which they are found; it returns the events to show. When it needs the stored text of a
step, it names the step in `wanted` and holds everything else back until `supply`.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from agents_app.events import RUN_QUEUED, RUN_STARTED, SNAPSHOT, WORKSTREAM_EVENTS
from audit_app.follow.items import START, CaughtUp, Item, LiveEntry, PassingEvent, Position, format_position
from audit_app.timeline import KeptEvent
from sessions_app.events import MESSAGE_COMPLETED, STEP_CLOSING
from sessions_app.live_view.cursor import Cursor, SessionEvent
from sessions_app.live_view.run_text import RunTextState, Shown
from tools_app.events import (
    APPROVAL_DECIDED,
    APPROVAL_REQUESTED,
    INPUT_REQUESTED,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_REQUESTED,
)

_BEGINNING = (RUN_QUEUED.name, RUN_STARTED.name)
# Events of child runs that every viewer sees, as the root run's: requests to people, and the states of workstreams.
_OF_CHILDREN = (APPROVAL_REQUESTED.name, APPROVAL_DECIDED.name, INPUT_REQUESTED.name, *WORKSTREAM_EVENTS)
_EXECUTION_ENDED = (TOOL_COMPLETED.name, TOOL_FAILED.name)


class SessionStream:
    """The merged stream. Guarantees, from any cursor that it has returned:

    - Every stored event comes once, in order.
    - The text of a step comes in pieces without gap or overlap; `message.reset` empties it, `snapshot` replaces it.
    - Before the event that closes a step comes, its text equals the stored text.
    """

    def __init__(self, session_id: UUID, seq: int, *, shows_children: bool = False) -> None:
        """shows_children: show all events of child runs, not only their workstream's and those that ask."""
        self.session_id = session_id
        self.seq = seq
        self._shows_children = shows_children
        self.wanted: tuple[UUID, int] | None = None
        self._wanting: KeptEvent | None = None
        self._runs: dict[UUID, RunTextState] = {}
        self._child_ids: set[UUID] = set()
        self._active: RunTextState | None = None  # the root run whose position is in the cursor
        self._over: set[UUID] = set()
        self._waiting: deque[Item] = deque()
        self._early: dict[UUID, list[PassingEvent]] = {}
        self._awaited_read: int | None = None

    def restore(
        self, run_id: UUID, events: Iterable[KeptEvent], entries: Sequence[LiveEntry], cursor: Cursor
    ) -> list[SessionEvent] | None:
        """Restore the state of the run that was active at the cursor. Shows nothing again.

        events: the run's events up to the cursor.
        entries: its live stream as it is now.
        cursor: of the viewer. Returns the live events of the open step that the viewer was shown; None if the
            stream does not reach back to the cursor, so that this is unknown.
        """
        run, live = self._restored(run_id, events), cursor.live
        self._active, run.since = run, cursor.since
        if live is None or (live != START and all(entry.position != live for entry in entries)):
            run.assume_unknown(live or START)
            return None
        shown = [entry for entry in entries if run.since <= entry.position[0] and entry.position <= live]
        return [seen for entry in shown for seen in self._take(run, entry)]

    def restore_child(self, run_id: UUID, events: Iterable[KeptEvent]) -> None:
        """Restore the state of a child run that was open at the cursor. events: its events up to the cursor.

        The text of its open step is shown again from its beginning.
        """
        self._child_ids.add(run_id)
        self._restored(run_id, events).assume_unknown(START)

    def _restored(self, run_id: UUID, events: Iterable[KeptEvent]) -> RunTextState:
        run = self._runs[run_id] = RunTextState(run_id)
        run.assume_empty()
        for event in events:
            if event.type == RUN_STARTED.name:
                run.start()
            if event.type in STEP_CLOSING and event.step is not None:
                run.close(event.step)
            _track_execution(run, event)
        return run

    @property
    def open_runs(self) -> set[UUID]:
        """The root runs that are open as far as the viewer has seen."""
        return self._runs.keys() - self._over - self._child_ids

    @property
    def open_children(self) -> set[UUID]:
        """The child runs that are open as far as the viewer has seen."""
        return self._child_ids - self._over

    def join(self, run_id: UUID, entries: Sequence[LiveEntry], events: Iterable[KeptEvent]) -> list[LiveEntry]:
        """Return the entries of a run's stream to feed to a viewer that joins it: without text of claims that died.

        events: the stored events that are fed with them. The text of a step that one of them closes is complete.
        A viewer that has live text of the run gets all entries, with the reset between them.
        """
        run = self._run(run_id)
        if run.position != START or not entries:
            return list(entries)
        newest = entries[-1].position[0]
        closed = {event.step for event in events if event.run_id == run_id and event.type in STEP_CLOSING}
        claims = {entry.step: entry.position[0] if entry.step in closed else newest for entry in entries}
        living = [entry for entry in entries if entry.step is None or entry.position[0] == claims[entry.step]]
        run.since = newest if len(living) < len(entries) else run.since
        return living

    def feed(self, items: Iterable[Item]) -> list[SessionEvent]:
        """Add items and return the events to show now, in order."""
        self._waiting.extend(items)
        return self._process()

    def supply(self, text: str | None) -> list[SessionEvent]:
        """Supply the stored text of the `wanted` step, None if there is none, and continue."""
        event, self._wanting, self.wanted = self._wanting, None, None
        return [*self._complete(event, text), *self._process()] if event else []

    @property
    def needs_read(self) -> bool:
        """Return whether a read of the timeline would release entries that are held back; see `await_read`."""
        return self._awaited_read is None and any(run.held for run in self._runs.values())

    def await_read(self, read: int) -> None:
        """Note that a read was requested. read: its number; its CaughtUp releases the entries that are held now."""
        self._awaited_read = read
        for run in self._runs.values():
            run.mark_held()

    def _process(self) -> list[SessionEvent]:
        shown: list[SessionEvent] = []
        while self._waiting and self.wanted is None:
            item = self._waiting.popleft()
            match item:
                case LiveEntry():
                    shown += self._see_entry(item)
                case KeptEvent():
                    shown += self._see_event(item)
                case PassingEvent():
                    shown += self._see_passing(item)
                case CaughtUp():
                    shown += self._see_caught_up(item)
        return shown

    # Live entries.

    def _see_entry(self, entry: LiveEntry) -> list[SessionEvent]:
        if entry.run_id in self._over:
            return []
        run = self._run(entry.run_id)
        if entry.position <= (run.held[-1].position if run.held else run.position):
            return []
        if run.must_wait(entry):
            run.held.append(entry)
            return []
        return self._take(run, entry)

    def _take(self, run: RunTextState, entry: LiveEntry) -> list[SessionEvent]:
        """Return the events of an entry.

        All but the last carry the cursor before the entry: a viewer that resumes there gets them again, without harm.
        """
        before = run.position if run is self._active else None
        seen = [self._seen(run, shown) for shown in run.take(entry)]
        return [*(replace(event, cursor=self._cursor(before)) for event in seen[:-1]), *seen[-1:]]

    def _see_caught_up(self, caught_up: CaughtUp) -> list[SessionEvent]:
        if self._awaited_read is None or caught_up.read < self._awaited_read:
            return []
        self._awaited_read = None
        runs = self._runs.values()
        return [seen for run in runs for entry in run.release(marked=True) for seen in self._take(run, entry)]

    def _see_passing(self, passing: PassingEvent) -> list[SessionEvent]:
        """Show a passing event. Those of a tool execution wait for the event that announces it."""
        execution_id = passing.payload.get("execution_id")
        run = self._runs.get(passing.run_id) if passing.run_id else None
        if passing.run_id and execution_id and (run is None or execution_id not in run.open_executions):
            if passing.run_id not in self._over:
                self._early.setdefault(passing.run_id, []).append(passing)
            return []
        return [SessionEvent(passing.type, self.session_id, passing.run_id, None, passing.payload, self._cursor())]

    # Stored events.

    def _see_event(self, event: KeptEvent) -> list[SessionEvent]:
        if event.seq <= self.seq:
            return []
        if event.parent_run_id and event.run_id and not self._shows_children:
            return self._see_event_of_child(event, event.run_id)
        if event.type not in STEP_CLOSING or event.run_id is None or event.step is None:
            return self._pass(event)
        length = event.payload.get("text_length")
        if length is None or not self._run(event.run_id).lacks_text(event.step, length):
            return self._complete(event, None)
        if length == 0:
            return self._complete(event, "")
        self.wanted, self._wanting = (event.run_id, event.step), event
        return []

    def _see_event_of_child(self, event: KeptEvent, run_id: UUID) -> list[SessionEvent]:
        self._over.add(run_id)  # drops its live events
        self._early.pop(run_id, None)
        if event.type not in _OF_CHILDREN:
            self.seq = event.seq
            return []
        if self._active:
            event = replace(event, run_id=self._active.run_id)
        return self._pass(event)

    def _complete(self, event: KeptEvent, text: str | None) -> list[SessionEvent]:
        """Close the step of the event. text: its whole text if the viewer lacks it."""
        if event.run_id is None or event.step is None:
            return self._pass(event)
        run = self._run(event.run_id)
        shown = []
        if text is not None:
            # A viewer that resumes in between shows more than any entry of the stream contains: its cursor names none.
            whole = self._seen(run, Shown(SNAPSHOT.name, event.step, {"text": text}))
            shown = [replace(whole, cursor=str(self.seq))]
        run.close(event.step)
        return [*shown, *self._pass(event)]

    def _pass(self, event: KeptEvent) -> list[SessionEvent]:
        """Return the event and the entries that waited for it."""
        self.seq = event.seq
        run = self._track(event)
        seen = [SessionEvent.of(event, self._cursor())]
        if run is None or run.is_over:
            return seen
        for passing in self._early.pop(run.run_id, ()):
            seen += self._see_passing(passing)
        for entry in run.release():
            seen += self._take(run, entry)
        return seen

    def _track(self, event: KeptEvent) -> RunTextState | None:
        """Update the state of the event's run and return it, None if the event has no known run."""
        if event.run_id is None:
            return None
        if event.parent_run_id and self._shows_children:  # else it has the id of the root run
            self._child_ids.add(event.run_id)
        if event.type in _BEGINNING:
            self._run(event.run_id).assume_empty()
        run = self._runs.get(event.run_id)
        if run is None:
            return None
        if event.type == RUN_STARTED.name:
            run.start()
            self._active = self._active if event.parent_run_id else run
        _track_execution(run, event)
        if event.ends_run or event.type == MESSAGE_COMPLETED.name:
            self._end(run)
        if event.type == MESSAGE_COMPLETED.name or (event.ends_run and event.parent_run_id):
            del self._runs[run.run_id]  # not before: it may come late, and needs the length of the shown text
        return run

    def _end(self, run: RunTextState) -> None:
        run.is_over = True
        run.held.clear()
        self._over.add(run.run_id)
        self._early.pop(run.run_id, None)
        if self._active is run:
            self._active = None

    def _run(self, run_id: UUID) -> RunTextState:
        if run_id not in self._runs:
            self._runs[run_id] = RunTextState(run_id)
        return self._runs[run_id]

    def _seen(self, run: RunTextState, shown: Shown) -> SessionEvent:
        return SessionEvent(shown.type, self.session_id, run.run_id, shown.step, shown.payload, self._cursor())

    def _cursor(self, live: Position | None = None) -> str:
        if live is None or self._active is None:
            live = self._active.position if self._active else START
        since = f"-{self._active.since}" if self._active and self._active.since else ""
        return f"{self.seq}.{format_position(live)}{since}"


def _track_execution(run: RunTextState, event: KeptEvent) -> None:
    if event.type == TOOL_REQUESTED.name:
        run.open_executions.add(event.payload["execution_id"])
    elif event.type in _EXECUTION_ENDED:
        run.open_executions.discard(event.payload["execution_id"])
