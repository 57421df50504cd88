"""A run as the events of one message. Pure: facts in, events out.

The facts of a whole run give the same events each time, however its text was cut; those up to the place that the reader
has are left out, and text that began anew is told again only where it says something else.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from agents_app.events import (
    MESSAGE_RESET,
    REASONING_DELTA,
    RUN_CANCELLED,
    RUN_COMPLETED,
    RUN_FAILED,
    RUN_STARTED,
    RUN_TIMED_OUT,
    SNAPSHOT,
    TEXT_DELTA,
)
from sessions_app.events import CITATIONS_ADDED, STEP_CLOSING
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.step_text import NOTHING, TextUpdate
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.threads.citation_parts import citation_payload
from sessions_app.surfaces.threads.event_ids import (
    BEGIN,
    CALLS,
    END,
    LAST_STEP,
    REASONING,
    REASONING_END,
    TEXT,
    TEXT_END,
    EventPosition,
)
from sessions_app.surfaces.threads.foreign_ids import part_id
from sessions_app.surfaces.threads.resumable_text import ResumableText
from sessions_app.surfaces.threads.tool_steps import CALL_FACTS, PASSING_FACTS, Calls
from tools_app.events import INPUT_REQUESTED
from tools_app.types import Decision

ENDS = {
    RUN_COMPLETED.name: "completed",
    RUN_CANCELLED.name: "canceled",
    RUN_FAILED.name: "failed",
    RUN_TIMED_OUT.name: "failed",
}
_TEXT = (TEXT_DELTA.name, SNAPSHOT.name, MESSAGE_RESET.name)
_ZONES = {"reasoning": (REASONING, REASONING_END), "text": (TEXT, TEXT_END)}


class Event(NamedTuple):
    """name: of `event_schemas.KINDS`; entry_id: where it stands, empty for what has no place in a message."""

    name: str
    data: dict[str, Any]
    entry_id: str = ""


@dataclass
class _Part:
    """A text or what was thought before it. is_told: begun for the reader; is_over: nothing more of it is told."""

    told: ResumableText = field(default_factory=ResumableText)
    is_told: bool = False
    is_over: bool = False


@dataclass
class _Step:
    """calls: how many events about its calls there were."""

    parts: dict[str, _Part]
    calls: int = 0


class MessageEvents:
    """after: the place that the reader has, in this message; None: it has nothing. clock: for what has no time;
    may_say: all that the reader may say to requests for approval."""

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
        self._calls = Calls(allowed_decisions)
        self._citations: list[dict[str, Any]] = []
        self._has_begun = False
        self._pause: EventPosition | None = None
        self.last_place = after

    def see(self, fact: SessionEvent) -> list[Event]:
        """The events that a fact of the run adds."""
        if fact.type == RUN_STARTED.name:
            return self._begin()
        if fact.type == CITATIONS_ADDED.name:
            self._citations += citation_payload(fact.payload)
        if fact.step is None or fact.step < self._after.step:
            return []
        events: list[Event] = []
        if fact.type == REASONING_DELTA.name:
            events += self._see_part(fact.step, "reasoning", lambda told: told.add(fact.payload["text"]))
        elif fact.type in _TEXT:
            events += self._see_text(fact, fact.step)
        elif fact.type in STEP_CLOSING:
            events += [*self._close(fact.step, "reasoning"), *self._close(fact.step, "text")]
        if fact.type in CALL_FACTS:
            events += self._see_call(fact, fact.step)
        elif fact.type in PASSING_FACTS and (step := self._calls.pass_by(fact)) and self.last_place:
            events.append(self._event("step", self.last_place, **step))
        return events

    def pause(self) -> list[Event]:
        """The run waits for its person's words: the message is over for now."""
        return self._call_event("message_end", self._pause, status="waiting") if self._pause else []

    def end(self, fact: SessionEvent) -> list[Event]:
        """The last events, for the fact that ended the run."""
        begin, payload = self._begin(), fact.payload
        status = ENDS[fact.type]
        events = []
        if self._citations:
            events += self._last(0, "citations", citations=self._citations)
        if status == "failed":
            events += self._last(1, "error", error=payload["message"] or "The agent failed.", code=payload["code"])
        if status == "completed" and payload["code"]:
            status = "incomplete"
        usage: Mapping[str, int] = payload["usage"]
        return [*begin, *events, *self._last(2, "message_end", status=status, usage=dict(usage))]

    # Texts.

    def _see_text(self, fact: SessionEvent, step: int) -> list[Event]:
        if fact.type == MESSAGE_RESET.name:
            for part in self._step(step).parts.values():
                part.told.reset()
            return []
        text = fact.payload["text"]
        told = self._see_part(
            step, "text", lambda told: told.replace(text) if fact.type == SNAPSHOT.name else told.add(text)
        )
        return [*self._close(step, "reasoning"), *told]

    def _see_part(self, step: int, kind: str, change: Callable[[ResumableText], TextUpdate]) -> list[Event]:
        part = self._step(step).parts[kind]
        return [] if part.is_over else self._tell(step, kind, part, change(part.told))

    def _tell(self, step: int, kind: str, part: _Part, told: TextUpdate) -> list[Event]:
        zone, _ = _ZONES[kind]
        events = []
        if told.restarts or (told.piece and not part.is_told):
            again = {"restarted": True} if told.restarts else {}
            events.append(self._part_event(f"{kind}_start", EventPosition(self._number, step, zone), kind, **again))
            part.is_told = True
        if told.piece:
            place = EventPosition(self._number, step, zone, part.told.length, part.told.check)
            events.append(self._part_event(f"{kind}_delta", place, kind, delta=told.piece))
        return events

    def _close(self, step: int, kind: str) -> list[Event]:
        part = self._step(step).parts[kind]
        if part.is_over:
            return []
        # Of what was thought nobody keeps the whole: it ends as far as it was told.
        events = self._tell(step, kind, part, part.told.close() if kind == "text" else NOTHING)
        part.is_over = True
        if part.is_told:
            events.append(self._part_event(f"{kind}_end", EventPosition(self._number, step, _ZONES[kind][1]), kind))
        return events

    def _step(self, index: int) -> _Step:
        if index not in self._steps:
            self._steps[index] = _Step({kind: self._part(index, *zones) for kind, zones in _ZONES.items()})
        return self._steps[index]

    def _part(self, step: int, zone: int, end: int) -> _Part:
        """As the reader knows it, if its place is in this step."""
        after = self._after
        if after.step != step or after.zone < zone:
            return _Part()
        if after.zone >= end:
            return _Part(is_told=True, is_over=True)
        return _Part(ResumableText(after.offset, after.check), is_told=True)

    # Calls.

    def _see_call(self, fact: SessionEvent, index: int) -> list[Event]:
        step = self._calls.see(fact)
        events = self._call_event("step", self._next_place(index), **step) if step else []
        if fact.type == INPUT_REQUESTED.name:
            events += self._ask(fact, index)
        return events

    def _ask(self, fact: SessionEvent, index: int) -> list[Event]:
        """A question to the person is a text of the answer. The end that may follow has its place in any case."""
        part = {"part_id": part_id(self._run_id, index, f"question:{fact.payload['execution_id']}")}
        events = self._call_event("text_start", self._next_place(index), **part)
        events += self._call_event("text_delta", self._next_place(index), **part, delta=fact.payload["question"])
        events += self._call_event("text_end", self._next_place(index), **part)
        self._pause = self._next_place(index)
        return events

    def _next_place(self, index: int) -> EventPosition:
        step = self._step(index)
        step.calls += 1
        return EventPosition(self._number, index, CALLS, step.calls)

    # Events.

    def _begin(self) -> list[Event]:
        if self._has_begun:
            return []
        self._has_begun = True
        return self._call_event("message_start", EventPosition(self._number, 0, BEGIN))

    def _last(self, offset: int, name: str, /, **data: Any) -> list[Event]:
        return self._call_event(name, EventPosition(self._number, LAST_STEP, END, offset), **data)

    def _call_event(self, name: str, place: EventPosition, /, **data: Any) -> list[Event]:
        """An event whose place alone says whether the reader has it."""
        return [self._event(name, place, **data)] if place > self._after else []

    def _part_event(self, name: str, place: EventPosition, kind: str, /, **data: Any) -> Event:
        return self._event(name, place, part_id=part_id(self._run_id, place.step, kind), **data)

    def _event(self, name: str, place: EventPosition, /, **data: Any) -> Event:
        self.last_place = place
        message = str(self._run_id)
        told = {"id": message, "message_id": message, "seq": str(place), "ts": iso(self._clock()), **data}
        return Event(name, told, str(place))


def lines_of(events: Iterable[Event]) -> str:
    """The events as they are sent. Those without an entry id leave the reader's place as it is."""
    return "".join(_lines(event) for event in events)


def _lines(event: Event) -> str:
    place = f"id: {event.entry_id}\n" if event.entry_id else ""
    return f"{place}event: {event.name}\ndata: {json.dumps(event.data, ensure_ascii=False, separators=(',', ':'))}\n\n"
