"""What the page shows of one run: the person's words, the answer's parts in order, and how it stands. Pure.

An exchange is built from stored turns once the run is over, and from the run's own record while it is open.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from django.utils.safestring import SafeString

from agents_app.types import RunStatus, RunTranscript, RunView, WaitingOn
from sessions_app.conversation.citations import Citation, as_lines, numbered
from sessions_app.models import Turn
from sessions_app.selectors import citations_of
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.approval_cards import ApprovalCard
from sessions_app.surfaces.chat.source_list import ShownSource, shown_sources
from sessions_app.surfaces.chat.tool_cards import ASK_USER, Call, call_of
from tools_app.types import ExecutionView

THINKING = "Thinking…"
ASKING = "Waiting for your answer"
RETRYING = "The model is busy, trying again"
NO_APPROVALS: Mapping[UUID, ApprovalCard] = MappingProxyType({})
_WAITS = {
    WaitingOn.APPROVAL: "Waiting for an approval",
    WaitingOn.INPUT: ASKING,
    WaitingOn.CHILDREN: "Waiting for other agents",
}


@dataclass(frozen=True)
class TextPart:
    """Text of one step. source: its Markdown, with numbers for what it cites; html: sanitised; length: in code
    points."""

    step: int
    source: str
    html: SafeString

    @property
    def length(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Status:
    """How an open run stands. until: when it goes on by itself, if that is known; detail: why it waits."""

    words: str
    until: datetime | None = None
    detail: str = ""
    is_queued: bool = False


@dataclass(frozen=True)
class TurnView:
    """key: names its elements in the page; status: None once it is over; problem: why the answer is not whole."""

    key: str
    run_id: UUID | None
    ordinal: int
    question: str = ""
    parts: tuple[TextPart | Call, ...] = ()
    status: Status | None = None
    state: str = "complete"
    problem: str = ""
    is_stopped: bool = False
    can_retry: bool = False
    citations: tuple[Citation, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.status is not None

    @property
    def source(self) -> str:
        """The Markdown of everything that was said, and what it cites."""
        said = [part.source for part in self.parts if isinstance(part, TextPart)]
        return "\n\n".join([*said, as_lines(self.citations)] if self.citations else said)

    @property
    def sources(self) -> tuple[ShownSource, ...]:
        return shown_sources(self.citations)


def stored_turn_view(
    turns: Sequence[Turn],
    executions: Mapping[str, ExecutionView],
    html_of: Callable[[Turn], SafeString],
    approvals: Mapping[UUID, ApprovalCard] = NO_APPROVALS,
) -> TurnView:
    """The exchange of a run that is over. turns: all of its run, in order; executions: those they name, by id;
    approvals: requests about them, by the execution's id."""
    first, answer = turns[0], next((turn for turn in turns if turn.is_answer), None)
    parts: list[TextPart | Call] = []
    for step, turn in enumerate(turn for turn in turns if turn.role == "assistant"):
        if turn.content:
            parts.append(TextPart(step, numbered(turn.content, citations_of(turn)), html_of(turn)))
        if not turn.is_answer:
            named = (executions.get(execution_id) for execution_id in turn.tool_call_ids or [])
            parts += [call_of(execution, approvals.get(execution.id)) for execution in named if execution]
    cited = tuple(citation for turn in turns for citation in citations_of(turn))
    shown = TurnView(
        _key(first.run_id, first.ordinal), first.run_id, first.ordinal, parts=tuple(parts), citations=cited
    )
    turn_view = _asked(turns, shown)
    if answer is None or answer.state == "complete":
        return turn_view
    is_stopped = answer.error_code == "cancelled"
    return replace(
        turn_view,
        state=answer.state,
        problem="" if is_stopped else answer.error_message or "The answer broke off.",
        is_stopped=is_stopped,
        can_retry=is_stopped or answer.state == "error",
    )


def open_turn_view(
    run: RunView,
    turns: Sequence[Turn],
    transcript: RunTranscript | None,
    render: Callable[[str], SafeString],
    *,
    place: int = 1,
    approvals: Mapping[UUID, ApprovalCard] = NO_APPROVALS,
) -> TurnView:
    """The exchange of a run that is not over. turns: what is stored of it (the person's words); transcript: None while
    it is queued; place: in the queue, from 1; approvals: requests about its calls, by the execution's id."""
    parts: list[TextPart | Call] = []
    for step in transcript.steps if transcript else ():
        if step.text:
            parts.append(TextPart(step.index, step.text, render(step.text)))
        own = [item for item in transcript.executions if item.step == step.index] if transcript else []
        parts += [call_of(item, approvals.get(item.id)) for item in own]
    status = status_of(run, parts, place)
    return _asked(turns, TurnView(_key(run.id, run.ordinal), run.id, run.ordinal, parts=tuple(parts), status=status))


def status_of(run: RunView, parts: Iterable[TextPart | Call] = (), place: int = 1) -> Status:
    """What to say of an open run."""
    if run.status is RunStatus.QUEUED:
        return Status(labels.in_line(place), is_queued=True)
    if run.waiting_on is WaitingOn.RETRY:
        return Status(RETRYING, until=run.retry_at, detail=run.error_message)
    if run.waiting_on is WaitingOn.APPROVAL:
        asked = [part.approval for part in parts if isinstance(part, Call) and part.approval]
        return Status(next((card.waits for card in asked if card.is_pending), _WAITS[WaitingOn.APPROVAL]))
    if run.waiting_on is WaitingOn.TOOLS:
        tools = [part.tool for part in parts if isinstance(part, Call) and part.result is None]
        return Status(using(tools))
    return Status(_WAITS.get(run.waiting_on, THINKING) if run.waiting_on else THINKING)


def using(tools: Iterable[str]) -> str:
    """What to say while tools run."""
    asked = list(tools)
    names = ", ".join(dict.fromkeys(tool for tool in asked if tool != ASK_USER))
    return f"Using {names}…" if names else ASKING if asked else THINKING


def _asked(turns: Sequence[Turn], turn_view: TurnView) -> TurnView:
    # What was said in answer to a question stands with the question.
    said = [turn.content for turn in turns if turn.role == "user" and not turn.tool_call_ids]
    return replace(turn_view, question="\n\n".join(said))


def _key(run_id: UUID | None, ordinal: int) -> str:
    return str(run_id) if run_id else f"place-{ordinal}"
