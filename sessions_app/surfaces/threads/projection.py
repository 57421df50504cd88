"""A run as the server-sent events of one message.

The events of a run give the same stream each time, however its text was cut into pieces. Events up to the position that
the client has are left out; a text that began again is sent again only where it differs.
"""

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from agents_app import events as runs
from sessions_app.conversation.citations import Citation
from sessions_app.events import CITATIONS_ADDED, STEP_CLOSING
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.step_text import NOTHING, TextUpdate
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
_ZONES = {"reasoning": (event_ids.REASONING, event_ids.REASONING_END), "text": (event_ids.TEXT, event_ids.TEXT_END)}


class ThreadEvent(NamedTuple):
    """An event to send. entry_id: its position, empty outside a message."""

    name: str
    data: dict[str, Any]
    entry_id: str = ""


@dataclass
class _Part:
    """The reasoning or the text of a step. is_started, is_ended: `…_start`, `…_end` was sent."""

    text: ResumableText = field(default_factory=ResumableText)
    is_started: bool = False
    is_ended: bool = False


@dataclass
class _Step:
    """call_events: number of events about its tool calls."""

    parts: dict[str, _Part]
    call_events: int = 0


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
        self._steps: dict[int, _Step] = {}
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
        events = [] if event.parent_run_id else self._see_text(event, step)
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

    def _see_text(self, event: SessionEvent, step: int) -> list[ThreadEvent]:
        match event.type:
            case runs.TEXT_DELTA.name:
                piece = runs.TEXT_DELTA.payload(event)["text"]
                update = self._update(step, "text", lambda text: text.add(piece))
                return [*self._close(step, "reasoning"), *update]
            case runs.SNAPSHOT.name:
                whole = runs.SNAPSHOT.payload(event)["text"]
                update = self._update(step, "text", lambda text: text.replace(whole))
                return [*self._close(step, "reasoning"), *update]
            case runs.REASONING_DELTA.name:
                thought = runs.REASONING_DELTA.payload(event)["text"]
                return self._update(step, "reasoning", lambda text: text.add(thought))
            case runs.MESSAGE_RESET.name:
                for part in self._step(step).parts.values():
                    part.text.reset()
        if event.type in STEP_CLOSING:
            return [*self._close(step, "reasoning"), *self._close(step, "text")]
        return []

    def _update(self, step: int, kind: str, change: Callable[[ResumableText], TextUpdate]) -> list[ThreadEvent]:
        part = self._step(step).parts[kind]
        return [] if part.is_ended else self._send(step, kind, part, change(part.text))

    def _send(self, step: int, kind: str, part: _Part, update: TextUpdate) -> list[ThreadEvent]:
        zone, _ = _ZONES[kind]
        events = []
        if update.restarts or (update.piece and not part.is_started):
            restarted = {"restarted": True} if update.restarts else {}
            events.append(self._part_event(f"{kind}_start", EventPosition(self._number, step, zone), kind, **restarted))
            part.is_started = True
        if update.piece:
            position = EventPosition(self._number, step, zone, part.text.length, part.text.check)
            events.append(self._part_event(f"{kind}_delta", position, kind, delta=update.piece))
        return events

    def _close(self, step: int, kind: str) -> list[ThreadEvent]:
        part = self._step(step).parts[kind]
        if part.is_ended:
            return []
        # Reasoning is not stored while a step is open, so it cannot be compared: it ends as far as it was sent.
        events = self._send(step, kind, part, part.text.close() if kind == "text" else NOTHING)
        part.is_ended = True
        if part.is_started:
            events.append(self._part_event(f"{kind}_end", EventPosition(self._number, step, _ZONES[kind][1]), kind))
        return events

    def _step(self, index: int) -> _Step:
        if index not in self._steps:
            self._steps[index] = _Step({kind: self._part(index, *zones) for kind, zones in _ZONES.items()})
        return self._steps[index]

    def _part(self, step: int, zone: int, end: int) -> _Part:
        """Return a part as the client has it, if its position is in this step."""
        after = self._after
        if after.step != step or after.zone < zone:
            return _Part()
        if after.zone >= end:
            return _Part(is_started=True, is_ended=True)
        return _Part(ResumableText(after.offset, after.check), is_started=True)

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
        step = self._step(index)
        step.call_events += 1
        return EventPosition(self._number, index, event_ids.CALLS, step.call_events)

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
        data = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
        text += f"id: {event.entry_id}\n" if event.entry_id else ""
        text += f"event: {event.name}\ndata: {data}\n\n"
    return text
