"""Puts kept events and live entries of one session together for one watcher. Pure: no database, network or clock.

Feed it items in the order in which they are found; it returns what is to be shown. When it needs the stored text of a
step it names it in `wanted` and keeps everything else back until `supply`.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from agents_app.events import RUN_QUEUED, RUN_STARTED, SNAPSHOT, STEP_COMPLETED
from audit_app.follow.items import START, CaughtUp, Item, LiveEntry, PassingEvent, Position, format_position
from audit_app.timeline import KeptEvent
from sessions_app.events import MESSAGE_COMPLETED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.run_text import RunTextState, Shown
from tools_app.events import TOOL_COMPLETED, TOOL_FAILED, TOOL_REQUESTED

_BEGINNING = (RUN_QUEUED.name, RUN_STARTED.name)
_CLOSING = (TOOL_REQUESTED.name, STEP_COMPLETED.name, MESSAGE_COMPLETED.name)
_EXECUTION_ENDED = (TOOL_COMPLETED.name, TOOL_FAILED.name)


class SessionStream:
    """Guarantees, from any cursor it has given out:

    every kept event comes once, in order; text of a step comes in pieces without gap or overlap, `message.reset`
    empties it and `snapshot` replaces it; before the fact that closes a step comes, its text is the stored text.
    """

    def __init__(self, session_id: UUID, seq: int) -> None:
        self.session_id = session_id
        self.seq = seq
        self.wanted: tuple[UUID, int] | None = None
        self._wanting: KeptEvent | None = None
        self._runs: dict[UUID, RunTextState] = {}
        self._active: RunTextState | None = None  # the root run whose position is in the cursor
        self._over: set[UUID] = set()
        self._waiting: deque[Item] = deque()
        self._early: dict[UUID, list[PassingEvent]] = {}
        self._freed_by: int | None = None

    def restore(
        self, run_id: UUID, events: Iterable[KeptEvent], entries: Sequence[LiveEntry], live: Position | None
    ) -> list[SessionEvent] | None:
        """Take up the run that was active at the cursor: its events up to there, and what its stream holds now.

        live: the cursor's position. Nothing is shown again. Returns what the watcher was shown of the open step; None,
        and that is in doubt, if the stream does not reach back to it.
        """
        run = self._active = self._runs[run_id] = RunTextState(run_id)
        run.expect()
        run.start()
        for event in events:
            if event.type in _CLOSING and event.step is not None:
                run.close(event.step)
            _note_execution(run, event)
        if live is None or (live != START and all(entry.position != live for entry in entries)):
            run.doubt(live or START)
            return None
        return [seen for entry in entries if entry.position <= live for seen in self._take(run, entry)]

    @property
    def open_runs(self) -> set[UUID]:
        """Runs that were seen to be open and not to end."""
        return self._runs.keys() - self._over

    def feed(self, items: Iterable[Item]) -> list[SessionEvent]:
        """Take items in and return what is to be shown now, in order."""
        self._waiting.extend(items)
        return self._go_on()

    def supply(self, text: str | None) -> list[SessionEvent]:
        """Answer `wanted` with the stored text of that step, None when there is none, and go on."""
        event, self._wanting, self.wanted = self._wanting, None, None
        return [*self._complete(event, text), *self._go_on()] if event else []

    @property
    def needs_read(self) -> bool:
        """Whether entries are held back that a reading of the timeline would let go; see `await_read`."""
        return self._freed_by is None and any(run.held for run in self._runs.values())

    def await_read(self, read: int) -> None:
        """The reading with that number was asked for: its CaughtUp lets go what is held back now."""
        self._freed_by = read
        for run in self._runs.values():
            run.mark_held()

    def _go_on(self) -> list[SessionEvent]:
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
                    shown += self._see_word(item)
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
        """All facts but the last of an entry carry the position before it: resuming there repeats them harmlessly."""
        before = run.position
        seen = [self._seen(run, fact) for fact in run.take(entry)]
        for index in range(len(seen) - 1):
            seen[index] = replace(seen[index], cursor=self._cursor(before))
        return seen

    def _see_word(self, word: CaughtUp) -> list[SessionEvent]:
        if self._freed_by is None or word.read < self._freed_by:
            return []
        self._freed_by = None
        shown: list[SessionEvent] = []
        for run in self._runs.values():
            for entry in run.free(marked=True):
                shown += self._take(run, entry)
        return shown

    def _see_passing(self, passing: PassingEvent) -> list[SessionEvent]:
        """What says something of a tool execution waits for the fact that announces it."""
        execution_id = passing.fields.get("execution_id")
        run = self._runs.get(passing.run_id) if passing.run_id else None
        if passing.run_id and execution_id and (run is None or execution_id not in run.open_executions):
            if passing.run_id not in self._over:
                self._early.setdefault(passing.run_id, []).append(passing)
            return []
        return [SessionEvent(passing.type, self.session_id, passing.run_id, None, passing.fields, self._cursor())]

    # Kept events.

    def _see_event(self, event: KeptEvent) -> list[SessionEvent]:
        if event.seq <= self.seq:
            return []
        if event.type not in _CLOSING or event.run_id is None or event.step is None:
            return self._pass(event)
        length = event.payload.get("text_length")
        if length is None or not self._run(event.run_id).lacks_text(event.step, length):
            return self._complete(event, None)
        if length == 0:
            return self._complete(event, "")
        self.wanted, self._wanting = (event.run_id, event.step), event
        return []

    def _complete(self, event: KeptEvent, text: str | None) -> list[SessionEvent]:
        """Close the event's step, with its whole text if the watcher lacks it."""
        if event.run_id is None or event.step is None:
            return self._pass(event)
        run = self._run(event.run_id)
        shown = []
        if text is not None:
            # Who resumes in between shows more than any entry of the stream has said: its cursor names none.
            whole = self._seen(run, Shown(SNAPSHOT.name, event.step, {"text": text}))
            shown = [replace(whole, cursor=str(self.seq))]
        run.close(event.step)
        return [*shown, *self._pass(event)]

    def _pass(self, event: KeptEvent) -> list[SessionEvent]:
        """Show the event, and then whatever waited for it."""
        self.seq = event.seq
        run = self._note(event)
        seen = [SessionEvent.of(event, self._cursor())]
        if run is None or run.is_over:
            return seen
        for passing in self._early.pop(run.run_id, ()):
            seen += self._see_passing(passing)
        for entry in run.free():
            seen += self._take(run, entry)
        return seen

    def _note(self, event: KeptEvent) -> RunTextState | None:
        """Remember what the event says about its run."""
        if event.run_id is None:
            return None
        if event.type in _BEGINNING:
            self._run(event.run_id).expect()
        run = self._runs.get(event.run_id)
        if run is None:
            return None
        if event.type == RUN_STARTED.name:
            run.start()
            self._active = self._active if event.parent_run_id else run
        _note_execution(run, event)
        if event.ends_run or event.type == MESSAGE_COMPLETED.name:
            self._end(run)
        if event.type == MESSAGE_COMPLETED.name:
            del self._runs[run.run_id]  # not before: it may come late, and needs to know what is shown
        return run

    def _end(self, run: RunTextState) -> None:
        run.is_over = True
        run.held.clear()
        self._over.add(run.run_id)
        self._early.pop(run.run_id, None)
        if self._active is run:
            self._active = None

    def _run(self, run_id: UUID) -> RunTextState:
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = RunTextState(run_id)
        return run

    def _seen(self, run: RunTextState, shown: Shown) -> SessionEvent:
        return SessionEvent(shown.type, self.session_id, run.run_id, shown.step, shown.payload, self._cursor())

    def _cursor(self, live: Position | None = None) -> str:
        if live is None or self._active is None:
            live = self._active.position if self._active else START
        return f"{self.seq}.{format_position(live)}"


def _note_execution(run: RunTextState, event: KeptEvent) -> None:
    if event.type == TOOL_REQUESTED.name:
        run.open_executions.add(event.payload["execution_id"])
    elif event.type in _EXECUTION_ENDED:
        run.open_executions.discard(event.payload["execution_id"])
