"""What a tool card shows of one call, from the record of it or from the facts about it. Pure."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit_app.kernel.redact import masked
from audit_app.kernel.shorten import one_line
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.approval_cards import ApprovalCard
from sessions_app.surfaces.chat.collapse import Folded, parsed, pretty
from tools_app.types import ExecutionStatus, ExecutionView

_LONGEST_BRIEF = 120
ASK_USER = "ask_user"


@dataclass(frozen=True)
class CallState:
    """How far a call is. name: the CSS class; words: for people; duration: words, empty while it is not over."""

    id: UUID
    name: str
    words: str
    duration: str = ""

    @property
    def is_bad(self) -> bool:
        return self.name in labels.BAD_CALL_STATES


@dataclass(frozen=True)
class CallResult:
    """What came of a call: the tool's value as formatted JSON, or why there is none."""

    id: UUID
    output: Folded = Folded()
    error: str = ""


@dataclass(frozen=True)
class Asked:
    """A question to the person who reads the page. options: answers that a press sends; answer: what they said."""

    text: str
    options: tuple[str, ...] = ()
    answer: str = ""


@dataclass(frozen=True)
class Call:
    """A tool card. step: the run's step that asked for it; result: None while it is not over; brief: what the call
    is about, in one line; asked: the call waits for the person's next message; approval: somebody has to allow it, or
    had to."""

    id: UUID
    step: int
    tool: str
    arguments: Folded
    state: CallState
    result: CallResult | None = None
    brief: str = ""
    asked: Asked | None = None
    approval: ApprovalCard | None = None

    @property
    def is_unfolded(self) -> bool:
        """Whether there is something to be seen at once."""
        return self.state.is_bad or self.asked is not None or (self.approval is not None and self.approval.is_pending)


def call_of(execution: ExecutionView, approval: ApprovalCard | None = None) -> Call:
    """The card of a recorded call."""
    state = _state(execution.id, execution.status, execution.duration_seconds)
    if approval is not None:
        state = approved_state(state, approval)
    result = None
    if approval is not None and approval.is_refused:
        result = CallResult(execution.id)  # the request says why
    elif execution.status.is_terminal:
        result = _result(execution.id, execution.output, execution.error)
    arguments = masked(execution.arguments)
    asked = _asked(execution.tool, arguments, execution.output)
    return Call(
        execution.id,
        execution.step,
        execution.tool,
        pretty(arguments),
        state,
        result,
        _brief(arguments),
        asked,
        approval,
    )


def call_requested(step: int, payload: dict[str, Any]) -> Call:
    """The card of a call that a `tool.requested` fact tells of."""
    execution_id = UUID(payload["execution_id"])
    state = _state(execution_id, ExecutionStatus.PENDING, None)
    arguments = masked(payload.get("arguments", {}))
    asked = _asked(payload["tool"], arguments, None)
    return Call(execution_id, step, payload["tool"], pretty(arguments), state, brief=_brief(arguments), asked=asked)


def approved_state(state: CallState, approval: ApprovalCard) -> CallState:
    """The state of a call with what somebody said, or has to say, to it."""
    if approval.is_pending:
        return CallState(state.id, *labels.ASKS)
    return CallState(state.id, *labels.DENIED) if approval.is_refused else state


def waiting_state(approval: ApprovalCard) -> CallState:
    """The state of a call that has not begun."""
    return approved_state(_state(approval.call_id, ExecutionStatus.PENDING, None), approval)


def call_started(payload: dict[str, Any]) -> CallState:
    """The state that a `tool.started` event tells of."""
    return _state(UUID(payload["execution_id"]), ExecutionStatus.RUNNING, None)


def call_ended(payload: dict[str, Any], *, is_refused: bool = False) -> tuple[CallState, CallResult]:
    """The state and result that a `tool.completed` or `tool.failed` fact tells of. is_refused: nobody allowed it."""
    execution_id = UUID(payload["execution_id"])
    took_ms = payload.get("duration_ms")
    state = _state(execution_id, payload["status"], None if took_ms is None else took_ms / 1000)
    if is_refused and payload["status"] == ExecutionStatus.FAILED:
        return CallState(execution_id, *labels.DENIED), CallResult(execution_id)  # the request says why
    return state, _result(execution_id, payload.get("output"), payload.get("error"))


def _asked(tool: str, arguments: dict[str, Any], output: str | None) -> Asked | None:
    """What the call asks the person, if it does. arguments: as the model sent them, so perhaps of another shape."""
    question, options = arguments.get("question"), arguments.get("options")
    if tool != ASK_USER or not isinstance(question, str):
        return None
    told = parsed(output) if output else None
    answer = told.get("answer") if isinstance(told, dict) else None
    texts = tuple(str(option) for option in options) if isinstance(options, list) else ()
    return Asked(question, texts, str(masked(answer)) if answer else "")


def _brief(arguments: dict[str, Any]) -> str:
    """The values of the arguments in one line: what tells one call from another."""
    texts = [value if isinstance(value, str) else json.dumps(value) for value in arguments.values()]
    return one_line(" · ".join(texts), _LONGEST_BRIEF)


def _state(execution_id: UUID, status: str, seconds: float | None) -> CallState:
    name, said = labels.CALL_STATES[status]
    return CallState(execution_id, name, said, labels.duration(seconds))


def _result(execution_id: UUID, output: str | None, error: str | None) -> CallResult:
    return CallResult(execution_id, pretty(output) if output is not None else Folded(), masked(error or ""))
