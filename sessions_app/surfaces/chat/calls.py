"""What a tool card shows of one call, from the record of it or from the facts about it. Pure."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit_app.kernel.redact import masked
from sessions_app.surfaces.chat import words
from tools_app.types import ExecutionStatus, ExecutionView

_LONGEST_TEXT = 4_000  # as much as an event holds: live and after a reload a card shows the same
_LINES_SHOWN = 12
_CHARACTERS_SHOWN = 900
_LONGEST_BRIEF = 120


@dataclass(frozen=True)
class Folded:
    """Text of which the page shows `head` and, on demand, `rest`."""

    head: str = ""
    rest: str = ""

    @property
    def lines_more(self) -> int:
        return self.rest.count("\n") + 1


@dataclass(frozen=True)
class CallState:
    """How far a call is. name: the CSS class; words: for people; duration: words, empty while it is not over."""

    id: UUID
    name: str
    words: str
    duration: str = ""

    @property
    def is_bad(self) -> bool:
        return self.name in words.BAD_CALL_STATES


@dataclass(frozen=True)
class CallResult:
    """What came of a call: the tool's value as formatted JSON, or why there is none."""

    id: UUID
    output: Folded = Folded()
    error: str = ""


@dataclass(frozen=True)
class Call:
    """A tool card. step: the run's step that asked for it; result: None while it is not over; brief: what the call
    is about, in one line."""

    id: UUID
    step: int
    tool: str
    arguments: Folded
    state: CallState
    result: CallResult | None = None
    brief: str = ""


def call_of(execution: ExecutionView) -> Call:
    """The card of a recorded call."""
    state = _state(execution.id, execution.status, execution.duration_seconds)
    result = None
    if execution.status.is_terminal:
        result = _result(execution.id, execution.output, execution.error)
    arguments = masked(execution.arguments)
    return Call(execution.id, execution.step, execution.tool, pretty(arguments), state, result, _brief(arguments))


def call_requested(step: int, payload: dict[str, Any]) -> Call:
    """The card of a call that a `tool.requested` fact tells of."""
    execution_id = UUID(payload["execution_id"])
    state = _state(execution_id, ExecutionStatus.PENDING, None)
    arguments = masked(payload.get("arguments", {}))
    return Call(execution_id, step, payload["tool"], pretty(arguments), state, brief=_brief(arguments))


def call_started(payload: dict[str, Any]) -> CallState:
    """The state that a `tool.started` event tells of."""
    return _state(UUID(payload["execution_id"]), ExecutionStatus.RUNNING, None)


def call_ended(payload: dict[str, Any]) -> tuple[CallState, CallResult]:
    """The state and result that a `tool.completed` or `tool.failed` fact tells of."""
    execution_id = UUID(payload["execution_id"])
    took_ms = payload.get("duration_ms")
    state = _state(execution_id, payload["status"], None if took_ms is None else took_ms / 1000)
    return state, _result(execution_id, payload.get("output"), payload.get("error"))


def pretty(value: Any) -> Folded:
    """A JSON value, or text that may be JSON, masked, indented, cut and folded."""
    if isinstance(value, str):
        value = _parsed(value)
    value = masked(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    if len(text) > _LONGEST_TEXT:
        text = text[: _LONGEST_TEXT - 1] + "…"
    return _folded(text)


def _brief(arguments: dict[str, Any]) -> str:
    """The values of the arguments in one line: what tells one call from another."""
    texts = [value if isinstance(value, str) else json.dumps(value) for value in arguments.values()]
    line = " ".join(" · ".join(texts).split())
    return line if len(line) <= _LONGEST_BRIEF else line[: _LONGEST_BRIEF - 1] + "…"


def _state(execution_id: UUID, status: str, seconds: float | None) -> CallState:
    name, said = words.CALL_STATES[status]
    return CallState(execution_id, name, said, words.duration(seconds))


def _result(execution_id: UUID, output: str | None, error: str | None) -> CallResult:
    return CallResult(execution_id, pretty(output) if output is not None else Folded(), masked(error or ""))


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text


def _folded(text: str) -> Folded:
    lines = text.split("\n")
    head, rest = "\n".join(lines[:_LINES_SHOWN]), "\n".join(lines[_LINES_SHOWN:])
    if len(head) > _CHARACTERS_SHOWN:
        return Folded(text[:_CHARACTERS_SHOWN], text[_CHARACTERS_SHOWN:])
    return Folded(head, rest)
