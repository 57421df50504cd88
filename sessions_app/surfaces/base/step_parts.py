"""The text, the reasoning and the tool calls of runs as parts that start, grow and end. No I/O, no clock.

Most protocols send an answer this way. A projection turns the changes into its frames.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from uuid import UUID

from agents_app.events import MESSAGE_RESET, REASONING_DELTA, SNAPSHOT, TEXT_DELTA
from sessions_app.events import STEP_CLOSING
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.step_text import NOTHING, StepText, TextUpdate
from tools_app.events import TOOL_COMPLETED, TOOL_FAILED, TOOL_REQUESTED

Kind = Literal["reasoning", "text"]
KINDS: tuple[Kind, ...] = ("reasoning", "text")  # in the order in which a step has them


@dataclass
class Part:
    """The reasoning or the text of a step, as the client has it. is_started, is_ended: its start, its end was sent."""

    run_id: UUID
    step: int
    kind: Kind
    text: StepText
    is_started: bool = False
    is_ended: bool = False


class PartChange(NamedTuple):
    """The next thing to send of a part, in the order of the fields.

    restarts: the client first discards what it has of the part.
    """

    part: Part
    starts: bool = False
    restarts: bool = False
    piece: str = ""
    ends: bool = False


class StepParts:
    """The parts of all steps that one client is shown. make: returns a part as the client has it when it connects."""

    def __init__(self, make: Callable[[UUID, int, Kind], Part]) -> None:
        self._make = make
        self._steps: dict[tuple[UUID, int], dict[Kind, Part]] = {}

    def see(self, event: SessionEvent) -> list[PartChange]:
        """Return what follows from an event. Those that concern no part give nothing."""
        if event.run_id is None or event.step is None:
            return []
        parts = self._parts_of(event.run_id, event.step)
        match event.type:
            case TEXT_DELTA.name:
                text = TEXT_DELTA.payload(event)["text"]
                return [*_end(parts["reasoning"]), *_change(parts["text"], lambda part: part.add(text))]
            case SNAPSHOT.name:
                whole = SNAPSHOT.payload(event)["text"]
                return [*_end(parts["reasoning"]), *_change(parts["text"], lambda part: part.replace(whole))]
            case REASONING_DELTA.name:
                thought = REASONING_DELTA.payload(event)["text"]
                return _change(parts["reasoning"], lambda part: part.add(thought))
            case MESSAGE_RESET.name:
                for part in parts.values():
                    part.text.reset()
        return [change for part in parts.values() for change in _end(part)] if event.type in STEP_CLOSING else []

    def end_all(self, run_id: UUID | None = None) -> list[PartChange]:
        """Return the ends of all parts that are open, or of those of a run, as where a stream ends before its run."""
        steps = [step for (of_run, _), step in self._steps.items() if run_id in (None, of_run)]
        parts = [part for step in steps for part in step.values() if part.is_started and not part.is_ended]
        for part in parts:
            part.is_ended = True
        return [PartChange(part, ends=True) for part in parts]

    def _parts_of(self, run_id: UUID, step: int) -> dict[Kind, Part]:
        if (run_id, step) not in self._steps:
            self._steps[run_id, step] = {kind: self._make(run_id, step, kind) for kind in KINDS}
        return self._steps[run_id, step]


def _change(part: Part, change: Callable[[StepText], TextUpdate]) -> list[PartChange]:
    if part.is_ended:
        return []
    update = change(part.text)
    if not (update.restarts or update.piece):
        return []
    starts, part.is_started = not part.is_started, True
    return [PartChange(part, starts, update.restarts, update.piece)]


def _end(part: Part) -> list[PartChange]:
    if part.is_ended:
        return []
    part.is_ended = True
    # Reasoning is not stored while a step is open, so it cannot be compared: it ends as far as it was sent.
    update = part.text.close() if part.kind == "text" else NOTHING
    if not (part.is_started or update.piece or update.restarts):
        return []
    starts, part.is_started = not part.is_started, True
    return [PartChange(part, starts, update.restarts, update.piece, ends=True)]


class CallStarted(NamedTuple):
    """A tool call.

    arguments: masked.
    place: in its step.
    """

    execution_id: str
    tool: str
    arguments: Mapping[str, Any]
    place: int


class CallEnded(NamedTuple):
    """The end of a tool call.

    output: JSON text.
    error: why there is none.
    """

    execution_id: str
    output: str | None = None
    error: str | None = None


def see_call(event: SessionEvent) -> CallStarted | CallEnded | None:
    """Return the start or the end of a tool call, None for any other event."""
    match event.type:
        case TOOL_REQUESTED.name:
            begun = TOOL_REQUESTED.payload(event)
            return CallStarted(begun["execution_id"], begun["tool"], begun["arguments"], begun["call_index"])
        case TOOL_COMPLETED.name:
            completed = TOOL_COMPLETED.payload(event)
            return CallEnded(completed["execution_id"], output=completed["output"])
        case TOOL_FAILED.name:
            failed = TOOL_FAILED.payload(event)
            return CallEnded(failed["execution_id"], error=failed["error"])
    return None
