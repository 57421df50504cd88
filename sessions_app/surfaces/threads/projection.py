"""A run as the server-sent events of one message.

The events of a run give the same stream each time, however its text was cut into pieces. Events up to the position that
the client has are left out; a text that began again is sent again only where it differs.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any, NamedTuple, cast
from uuid import UUID

from agents_app import events as runs
from audit_app.kernel.json_text import as_json
from sessions_app.conversation.citations import Citation
from sessions_app.events import CITATIONS_ADDED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.step_parts import Kind, Part, PartChange, StepParts
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.threads import event_ids
from sessions_app.surfaces.threads.citation_parts import chunk_citations
from sessions_app.surfaces.threads.event_ids import EventPosition
from sessions_app.surfaces.threads.foreign_ids import part_id
from sessions_app.surfaces.threads.resumable_text import ResumableText
from sessions_app.surfaces.threads.tool_steps import STORED, ToolSteps
from tools_app.events import INPUT_REQUESTED, TOOL_PROGRESS
from tools_app.types import Decision

# Statuses of `message_end` by the event that ended the run. The four types have one payload.
ENDS = {runs.RUN_COMPLETED.name: "completed", runs.RUN_CANCELLED.name: "canceled"}
ENDS |= dict.fromkeys((runs.RUN_FAILED.name, runs.RUN_TIMED_OUT.name), "failed")
_ZONES: dict[Kind, tuple[int, int]] = {
    "reasoning": (event_ids.REASONING, event_ids.REASONING_END),
    "text": (event_ids.TEXT, event_ids.TEXT_END),
}


class ThreadEvent(NamedTuple):
    """An event to send. entry_id: its position, empty outside a message."""

    name: str
    data: dict[str, Any]
    entry_id: str = ""


class MessageEvents:
    """Encodes one run as one message.

    number: number of the message in its thread, from 1.
    clock: the time of events, which live text does not have.
    after: the position in this message that the client has; None: it has nothing.
    allowed_decisions: decisions that the client may send.
    """

    def __init__(
        self,
        run_id: UUID,
        number: int,
        clock: Callable[[], datetime],
        after: EventPosition | None = None,
        allowed_decisions: Collection[Decision] = tuple(Decision),
    ) -> None:
        self._run_id = run_id
        self._after = after or EventPosition(number, -1)
        self._number = number
        self._clock = clock
        self._parts = StepParts(self._part)
        self._call_events: Counter[int] = Counter()  # by step
        self._last_step = 0
        self._tool_steps = ToolSteps(allowed_decisions)
        self._citations: list[dict[str, Any]] = []
        self._has_begun = False
        self._pause: EventPosition | None = None
        self.last_position = after

    def see(self, event: SessionEvent) -> list[ThreadEvent]:
        """Return the events to send for an event of the run other than its end."""
        if event.type == runs.RUN_STARTED.name:
            return self._begin()
        if event.type == CITATIONS_ADDED.name:
            stored = CITATIONS_ADDED.payload(event)["citations"]
            self._citations += chunk_citations(Citation.from_dict(citation) for citation in stored)
        step = self._place_of(event)
        if step is None or step < self._after.step:
            return []
        events = [] if event.parent_run_id else self._see_text(event)
        if event.type in STORED:
            events += self._see_call(event, step)
        elif event.type == TOOL_PROGRESS.name and (call := self._tool_steps.progress(event)) and self.last_position:
            events.append(self._event("step", self.last_position, **call))
        return events

    def _place_of(self, event: SessionEvent) -> int | None:
        """Return the step that an event belongs to. Requests of workstreams come in the last one of the run."""
        if event.step is None or event.parent_run_id:
            return None if event.step is None else self._last_step
        self._last_step = max(self._last_step, event.step)
        return event.step

    def pause(self) -> list[ThreadEvent]:
        """Return the event that ends the stream while the run waits for the answer to its question."""
        return self._call_event("message_end", self._pause, status="waiting") if self._pause else []

    def end(self, event: SessionEvent) -> list[ThreadEvent]:
        """Return the last events. event: of one of the types in ENDS."""
        begin, payload = self._begin(), runs.RUN_COMPLETED.payload(event)
        status = ENDS[event.type]
        events = []
        if self._citations:
            events += self._last(0, "citations", citations=self._citations)
        if status == "failed":
            events += self._last(1, "error", error=payload["message"] or "The agent failed.", code=payload["code"])
        if status == "completed" and payload["code"]:
            status = "incomplete"
        return [*begin, *events, *self._last(2, "message_end", status=status, usage=dict(payload["usage"]))]

    # Texts.

    def _see_text(self, event: SessionEvent) -> list[ThreadEvent]:
        return [sent for change in self._parts.see(event) for sent in self._part_events(change)]

    def _part_events(self, change: PartChange) -> list[ThreadEvent]:
        part = change.part
        zone, end = _ZONES[part.kind]
        events = []
        if change.starts or change.restarts:
            restarted = {"restarted": True} if change.restarts else {}
            position = EventPosition(self._number, part.step, zone)
            events.append(self._part_event(f"{part.kind}_start", position, part.kind, **restarted))
        if change.piece:
            text = cast(ResumableText, part.text)
            position = EventPosition(self._number, part.step, zone, text.length, text.check)
            events.append(self._part_event(f"{part.kind}_delta", position, part.kind, delta=change.piece))
        if change.ends:
            events.append(self._part_event(f"{part.kind}_end", EventPosition(self._number, part.step, end), part.kind))
        return events

    def _part(self, run_id: UUID, step: int, kind: Kind) -> Part:
        """Return a part as the client has it, if its position is in this step."""
        after, (zone, end) = self._after, _ZONES[kind]
        if after.step != step or after.zone < zone:
            return Part(run_id, step, kind, ResumableText())
        if after.zone >= end:
            return Part(run_id, step, kind, ResumableText(), is_started=True, is_ended=True)
        return Part(run_id, step, kind, ResumableText(after.offset, after.check), is_started=True)

    # Tool calls.

    def _see_call(self, event: SessionEvent, index: int) -> list[ThreadEvent]:
        step = self._tool_steps.see(event)
        events = self._call_event("step", self._next_position(index), **step) if step else []
        if event.type == INPUT_REQUESTED.name:
            events += self._send_question(event, index)
        return events

    def _send_question(self, event: SessionEvent, index: int) -> list[ThreadEvent]:
        """Send a question as a text of the answer, and reserve the position of the `message_end` that may follow."""
        asked = INPUT_REQUESTED.payload(event)
        part = {"part_id": part_id(self._run_id, index, f"question:{asked['execution_id']}")}
        events = self._call_event("text_start", self._next_position(index), **part)
        events += self._call_event("text_delta", self._next_position(index), **part, delta=asked["question"])
        events += self._call_event("text_end", self._next_position(index), **part)
        self._pause = self._next_position(index)
        return events

    def _next_position(self, index: int) -> EventPosition:
        self._call_events[index] += 1
        return EventPosition(self._number, index, event_ids.CALLS, self._call_events[index])

    # Events.

    def _begin(self) -> list[ThreadEvent]:
        if self._has_begun:
            return []
        self._has_begun = True
        return self._call_event("message_start", EventPosition(self._number, 0, event_ids.BEGIN))

    def _last(self, offset: int, name: str, /, **data: Any) -> list[ThreadEvent]:
        return self._call_event(name, EventPosition(self._number, event_ids.LAST_STEP, event_ids.END, offset), **data)

    def _call_event(self, name: str, position: EventPosition, /, **data: Any) -> list[ThreadEvent]:
        """Return the event unless the client has it, which the position alone decides."""
        return [self._event(name, position, **data)] if position > self._after else []

    def _part_event(self, name: str, position: EventPosition, kind: str, /, **data: Any) -> ThreadEvent:
        return self._event(name, position, part_id=part_id(self._run_id, position.step, kind), **data)

    def _event(self, name: str, position: EventPosition, /, **data: Any) -> ThreadEvent:
        self.last_position = position
        message = str(self._run_id)
        common = {"id": message, "message_id": message, "seq": str(position), "ts": iso(self._clock())}
        return ThreadEvent(name, {**common, **data}, str(position))


def lines_of(events: Iterable[ThreadEvent]) -> str:
    """Return events in the format of an event stream (HTML standard, section 9.2.5).

    An event without an `id` leaves the client's last event id as it is.
    """
    text = ""
    for event in events:
        data = as_json(event.data)
        text += f"id: {event.entry_id}\n" if event.entry_id else ""
        text += f"event: {event.name}\ndata: {data}\n\n"
    return text
