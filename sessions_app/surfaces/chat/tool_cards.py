"""Tool cards: one tool call on the page, built from its record or from its events."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from agents_app.types.child_runs import child_id_of
from audit_app.kernel.redact import masked, masked_arguments
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.approval_cards import ApprovalCard
from sessions_app.surfaces.chat.collapse import Folded, pretty
from tools_app.events import ToolCompleted, ToolFailed, ToolRequested, ToolStarted
from tools_app.run_progress import BATCH, Batch
from tools_app.types import ExecutionStatus, ExecutionView
from tools_app.types.executions import parsed_output
from tools_app.types.questions import ASKING_TOOLS, InputStatus, InputView, Question, questions_of

_LONGEST_BRIEF = 120


@dataclass(frozen=True)
class CallState:
    """The state of a call.

    name: the CSS class.
    label: the text shown.
    seconds: None until the call has ended.
    """

    id: UUID
    name: str
    label: str
    seconds: float | None = None

    @property
    def duration(self) -> str:
        return labels.duration(self.seconds)

    @property
    def is_bad(self) -> bool:
        return self.name in labels.BAD_CALL_STATES


@dataclass(frozen=True)
class CallResult:
    """The result of a call: the output as formatted JSON, or an error.

    answer: the user's, if the call asked one.
    answers: to each question of a form: (question, answer).
    path: of the file that the call has written.
    """

    id: UUID
    output: Folded = Folded()
    error: str = ""
    answer: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    path: str = ""

    @property
    def file_name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class InputRequest:
    """A form of questions to the user.

    key: of its call.
    is_open: it can be answered, unless the call has ended.
    is_of_call: it was asked while the call ran, so it has a button to decline if no option does that.
    answer: the user's; empty for none.
    """

    key: UUID
    questions: tuple[Question, ...]
    is_open: bool = True
    is_of_call: bool = False
    answer: str = ""

    @classmethod
    def of_call(cls, asked: InputView, answer: str) -> "InputRequest":
        """Return the form of what a call has asked while it ran."""
        is_open = asked.status is InputStatus.PENDING
        return cls(asked.execution_id, asked.questions, is_open, is_of_call=True, answer=answer)

    @property
    def has_decline_button(self) -> bool:
        return self.is_of_call and not self.questions[0].options

    @property
    def has_fields(self) -> bool:
        """Return whether the answer is composed in a form. Otherwise each option is a button that sends it."""
        one = self.questions[0]
        return len(self.questions) > 1 or one.allows_several or bool(one.placeholder)


@dataclass(frozen=True)
class ToolCard:
    """One tool call on the page.

    step: the run's step that requested it.
    result: None until the call has ended.

    batch: set for a batch.
    asker: the workstream whose call it is; empty for the answering run.
    asked: the last question that was asked while the call ran, if any.
    arguments: as the model sent them, perhaps invalid, but masked.
    approval: set if the call needs an approval, or did.
    """

    id: UUID
    step: int
    tool: str
    arguments: dict[str, Any]
    state: CallState
    result: CallResult | None = None
    approval: ApprovalCard | None = None
    batch: Batch | None = None
    asker: str = ""
    asked: InputRequest | None = None

    @property
    def arguments_text(self) -> Folded:
        return pretty(self.arguments)

    @property
    def brief(self) -> str:
        """Return the values of the arguments in one line."""
        texts = [value if isinstance(value, str) else json.dumps(value) for value in self.arguments.values()]
        line = " ".join(" · ".join(texts).split())
        return line if len(line) <= _LONGEST_BRIEF else line[: _LONGEST_BRIEF - 1] + "…"

    @property
    def input_request(self) -> InputRequest | None:
        """Return the questions of a call: of `ask_user` or `ask_form`, or asked while it ran."""
        if self.asked:
            return self.asked
        questions = questions_of(self.arguments) if self.tool in ASKING_TOOLS else ()
        return InputRequest(self.id, questions) if questions else None

    @property
    def is_answered(self) -> bool:
        return self.result is not None or (self.asked is not None and not self.asked.is_open)

    @property
    def launched_id(self) -> UUID | None:
        """Return the id of the workstream that the call launches, None if it launches none."""
        return None if self.state.is_bad else child_id_of(self.tool, self.id, self.arguments)

    @property
    def is_quiet(self) -> bool:
        """Return whether something else shows the effect of the call, and no person has had to decide about it."""
        return self.tool in labels.QUIET_TOOLS and self.approval is None and not self.state.is_bad

    @property
    def is_left_out(self) -> bool:
        """Return whether the page has nothing to show of the call, also later."""
        return self.is_quiet and self.result is not None

    @property
    def may_be_grouped(self) -> bool:
        """Return whether the call needs nobody and shows nothing beside its line."""
        is_special = self.is_quiet or self.is_batch or self.tool == labels.WRITE_ARTIFACT or self.asker
        return not (is_special or self.approval or self.input_request or self.state.is_bad)

    @property
    def is_batch(self) -> bool:
        return self.tool == BATCH

    @property
    def asks(self) -> bool:
        """Return whether it waits for a person."""
        is_pending = self.approval is not None and self.approval.is_pending
        return is_pending or (self.input_request is not None and not self.is_answered)

    @property
    def is_unfolded(self) -> bool:
        """Return whether the card is open at first."""
        is_running = self.is_batch and self.result is None
        return self.state.is_bad or self.input_request is not None or self.asks or is_running


def tool_card_of(
    execution: ExecutionView, approval: ApprovalCard | None = None, batch: Batch | None = None
) -> ToolCard:
    """Return the card of a recorded call."""
    state = _state(execution.id, execution.status, execution.duration_seconds)
    if approval is not None:
        state = approved_state(state, approval)
    result = None
    if approval is not None and approval.is_refused:
        result = CallResult(execution.id)  # the approval card shows the reason
    elif execution.status.is_terminal:
        error = execution.error if execution.status is not ExecutionStatus.CANCELLED else ""  # its state says it
        result = _result(execution.id, execution.tool, execution.output, error)
    arguments = masked_arguments(execution.arguments)
    return ToolCard(execution.id, execution.step, execution.tool, arguments, state, result, approval, batch)


@dataclass(frozen=True)
class CallDetails:
    """The details of some calls, by the id of their execution."""

    approvals: Mapping[UUID, ApprovalCard] = field(default_factory=dict)
    batches: Mapping[UUID, Batch] = field(default_factory=dict)
    questions: Mapping[UUID, InputRequest] = field(default_factory=dict)

    def card_of(self, execution: ExecutionView) -> ToolCard:
        """Return the card of a recorded call."""
        card = tool_card_of(execution, self.approvals.get(execution.id), self.batches.get(execution.id))
        if (asked := self.questions.get(execution.id)) is None:
            return card
        return replace(card, asked=asked, result=card.result and replace(card.result, answer=asked.answer))


NO_DETAILS = CallDetails()


def requested_card(step: int, payload: ToolRequested, asker: str = "") -> ToolCard:
    """Return the card for a `tool.requested` event. asker: the workstream whose event it is, if any."""
    execution_id = UUID(payload["execution_id"])
    state = _state(execution_id, ExecutionStatus.PENDING, None)
    return ToolCard(execution_id, step, payload["tool"], masked_arguments(payload["arguments"]), state, asker=asker)


def approved_state(state: CallState, approval: ApprovalCard) -> CallState:
    """Return the state of a call, replaced while its approval is pending or after it was refused."""
    if approval.is_pending:
        return CallState(state.id, *labels.ASKS)
    return CallState(state.id, *labels.DENIED) if approval.is_refused else state


def waiting_state(card: ApprovalCard) -> CallState:
    """Return the state of a call that waits for its approval."""
    return approved_state(_state(card.approval.execution_id, ExecutionStatus.PENDING, None), card)


def started_state(payload: ToolStarted) -> CallState:
    """Return the state for a `tool.started` event."""
    return _state(UUID(payload["execution_id"]), ExecutionStatus.RUNNING, None)


def ended_state(payload: ToolCompleted | ToolFailed, *, is_refused: bool = False) -> tuple[CallState, CallResult]:
    """Return state and result for a `tool.completed` or `tool.failed` event. is_refused: its approval was refused."""
    execution_id = UUID(payload["execution_id"])
    took_ms = payload["duration_ms"]
    state = _state(execution_id, payload["status"], None if took_ms is None else took_ms / 1000)
    if is_refused and payload["status"] == ExecutionStatus.FAILED:
        return CallState(execution_id, *labels.DENIED), CallResult(execution_id)  # the approval card shows the reason
    error = payload.get("error") if payload["status"] != ExecutionStatus.CANCELLED else ""
    return state, _result(execution_id, payload.get("tool", ""), payload.get("output"), error)


def _state(execution_id: UUID, status: str, seconds: float | None) -> CallState:
    return CallState(execution_id, *labels.CALL_STATES[status], seconds)


def _result(execution_id: UUID, tool: str, output: Any, error: Any) -> CallResult:
    shown = pretty(output) if output is not None else Folded()
    if tool != labels.WRITE_ARTIFACT and tool not in ASKING_TOOLS:
        return CallResult(execution_id, shown, masked(error or ""))
    given = parsed_output(output) if isinstance(output, str) else output
    if not isinstance(given, dict):
        return CallResult(execution_id, shown, masked(error or ""))
    if tool == labels.WRITE_ARTIFACT:
        return CallResult(execution_id, shown, masked(error or ""), path=str(given.get("path") or ""))
    answer = str(masked(given.get("answer") or given.get("text") or ""))
    return CallResult(execution_id, shown, masked(error or ""), answer, _answers_of(given))


def _answers_of(value: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return each question of a form with the user's answer."""
    given = value.get("answers")
    answers = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    return tuple((str(masked(each.get("question") or "")), str(masked(each.get("answer") or "–"))) for each in answers)
