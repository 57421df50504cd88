"""The view of one run on the page: the user turn, the parts of the answer in order, and the status.

It is built from stored turns once the run has ended, and from the run's own record while it is open.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.safestring import SafeString

from agents_app.events import ModelFallback, RunWaiting
from agents_app.types import RunStatus, RunTranscript, RunView, StepView, WaitingOn
from agents_app.types.child_runs import WAIT_TOOL
from agents_app.types.run_cost import Fallback
from agents_app.types.runs import waits_for_place
from sessions_app.conversation.branch_paths import Versions
from sessions_app.conversation.citations import Citation, as_lines, numbered
from sessions_app.models import Feedback, Turn
from sessions_app.selectors import citations_of
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.call_groups import with_call_groups
from sessions_app.surfaces.chat.source_list import ShownSource, shown_sources
from sessions_app.surfaces.chat.tool_cards import NO_DETAILS, CallDetails, ToolCard
from sessions_app.surfaces.chat.workstream_cards import PersonPart, WorkstreamCard
from sessions_app.surfaces.chat.workstream_groups import WorkstreamGroup, placed
from tools_app.run_progress import Plan, Progress, find_plan, find_progress
from tools_app.types import ExecutionView
from tools_app.types.questions import ASKING_TOOLS

THINKING, ASKING = "Thinking…", "Waiting for your answer"
LONGEST_REASONING = 20_000  # characters that the page shows of a step
NO_ANSWER, RETRYING = "The model did not answer", "Trying again"
_INCOMPLETE, _CUT = "The answer is incomplete.", "The answer reached its length limit."


@dataclass(frozen=True)
class TextPart:
    """Text of one step.

    source: its Markdown, with numbers in place of citations.
    html: sanitised.
    """

    step: int
    source: str
    html: SafeString


@dataclass(frozen=True)
class ReasoningPart:
    """The reasoning of one step, as plain text. duration: for people; empty if unknown."""

    step: int
    reasoning: str
    duration: str = ""


@dataclass(frozen=True)
class RunDetails:
    """Facts about the runs of a page that their turns do not contain.

    reasoning: texts and seconds by run and step.
    withdrawn: runs that were cancelled before they began.
    fallbacks: fallbacks of the runs that another model than their agent's own has answered.
    compactions: by run.
    """

    reasoning: Mapping[tuple[UUID, int], tuple[str, float]] = field(default_factory=dict)
    withdrawn: frozenset[UUID] = frozenset()
    fallbacks: Mapping[UUID, Fallback] = field(default_factory=dict)
    compactions: Mapping[UUID, tuple["Compacted", ...]] = field(default_factory=dict)

    def note_of(self, run_id: UUID | None) -> str:
        """Return the note under an answer: which model wrote it instead of which, and why."""
        fallback = self.fallbacks.get(run_id) if run_id else None
        return f"{fallback.name} was called instead of {fallback.failed}: {fallback.reason}" if fallback else ""

    def reasoning_of(self, run_id: UUID | None, step: int) -> list["ReasoningPart"]:
        """Return the part for a step: none if it has no reasoning."""
        text, seconds = self.reasoning.get((run_id, step), ("", 0.0)) if run_id else ("", 0.0)
        return [ReasoningPart(step, text, labels.duration(seconds or None))] if text.strip() else []


@dataclass(frozen=True)
class Compacted:
    """A summary of earlier messages that a run has made. before, after: estimated tokens of its request."""

    id: UUID
    before: int
    after: int
    summary: str


Part = TextPart | ReasoningPart | ToolCard | WorkstreamCard | WorkstreamGroup | PersonPart
NO_RUN_DETAILS = RunDetails()


@dataclass(frozen=True)
class Status:
    """The status of an open run.

    until: time of the next retry, if known.
    detail: reason for waiting.
    for_workstreams: the page counts them in place of the text.
    """

    text: str
    until: datetime | None = None
    detail: str = ""
    is_queued: bool = False
    for_workstreams: bool = False


@dataclass(frozen=True)
class TurnView:
    """One run on the page.

    status: None once the run has ended.
    problem: why the answer is incomplete.
    note: about its model.
    files: `sent_files.SentFile`s.
    rating: the reader's.
    versions: the alternatives to its message, where others exist; live updates of a turn that is shown leave them out.
    compactions: summaries that the run has made.
    is_question_pinned, is_answer_pinned: they are sent with every message.
    plan, progress: as reported last.
    """

    run_id: UUID | None
    ordinal: int
    question: str = ""
    parts: tuple[Part, ...] = ()
    status: Status | None = None
    state: str = "complete"
    problem: str = ""
    note: str = ""
    is_stopped: bool = False
    is_withdrawn: bool = False
    can_retry: bool = False
    can_continue: bool = False
    citations: tuple[Citation, ...] = ()
    versions: Versions | None = None
    files: tuple[Any, ...] = ()
    rating: Feedback | None = None
    compactions: tuple[Compacted, ...] = ()
    is_question_pinned: bool = False
    is_answer_pinned: bool = False
    plan: Plan | None = None
    progress: Progress | None = None

    @property
    def only_compacts(self) -> bool:
        """Return whether the run has ended and answered nothing."""
        has_content = self.question or self.files or self.parts or self.is_open
        return not has_content and self.state == "complete"

    @property
    def shown_parts(self) -> tuple[Any, ...]:
        """Return the parts, with the calls of each step that need nobody as groups."""
        return with_call_groups(self.parts)

    @property
    def key(self) -> str:
        """Return the part that the ids of its elements have in common."""
        return str(self.run_id) if self.run_id else f"place-{self.ordinal}"

    @property
    def is_open(self) -> bool:
        return self.status is not None

    @property
    def source(self) -> str:
        """Return the Markdown of the whole answer, with its citations."""
        texts = [part.source for part in self.parts if isinstance(part, TextPart)]
        return "\n\n".join([*texts, as_lines(self.citations)] if self.citations else texts)

    @property
    def sources(self) -> tuple[ShownSource, ...]:
        return shown_sources(self.citations)


def stored_turn_view(
    turns: Sequence[Turn],
    executions: Mapping[str, ExecutionView],
    html_of: Callable[[Turn], SafeString],
    calls: CallDetails = NO_DETAILS,
    details: RunDetails = NO_RUN_DETAILS,
) -> TurnView:
    """Return the view of a run that has ended. turns: all of the run, in order.

    executions: executions that the turns name, by id.
    html_of: returns the rendered text of a turn.
    """
    first, answer = turns[0], next((turn for turn in turns if turn.is_answer), None)
    parts: list[Part] = []
    for step, turn in enumerate(turn for turn in turns if turn.role == "assistant"):
        parts += details.reasoning_of(first.run_id, step)
        if turn.content:
            parts.append(TextPart(step, numbered(turn.content, citations_of(turn)), html_of(turn)))
        if not turn.is_answer:
            named = (executions.get(execution_id) for execution_id in turn.tool_call_ids or [])
            parts += [calls.card_of(execution) for execution in named if execution]
    called = [executions[name] for turn in turns for name in turn.tool_call_ids or [] if name in executions]
    cited = tuple(citation for turn in turns for citation in citations_of(turn))
    view = TurnView(
        first.run_id,
        first.ordinal,
        _question(turns),
        tuple(parts),
        citations=cited,
        note=details.note_of(first.run_id),
        compactions=details.compactions.get(first.run_id, ()) if first.run_id else (),
        is_question_pinned=_is_pinned(turns, "user"),
        is_answer_pinned=_is_pinned(turns, "assistant"),
        plan=find_plan(called),
    )
    if answer is None or answer.state == "complete":
        return view
    is_stopped, is_cut = answer.error_code == "cancelled", answer.error_code == "length"
    if first.run_id in details.withdrawn:
        return replace(view, state=answer.state, is_withdrawn=True)
    return replace(
        view,
        state=answer.state,
        problem="" if is_stopped else answer.error_message or (_CUT if is_cut else _INCOMPLETE),
        is_stopped=is_stopped,
        can_retry=is_stopped or answer.state == "error",
        can_continue=is_cut,
    )


def open_turn_view(
    run: RunView,
    turns: Sequence[Turn],
    transcript: RunTranscript | None,
    render: Callable[[str], SafeString],
    *,
    place: int = 1,
    calls: CallDetails = NO_DETAILS,
) -> TurnView:
    """Return the view of an open run. turns: those stored so far, which are user turns.

    transcript: None while the run is queued.
    render: returns the HTML of a text.
    place: in the queue, from 1.
    """
    called = transcript.executions if transcript else ()
    parts = recorded_parts(transcript.steps if transcript else (), called, render, calls)
    return TurnView(
        run.id,
        run.ordinal,
        _question(turns),
        tuple(parts),
        status_of(run, parts, place),
        is_question_pinned=_is_pinned(turns, "user"),
        plan=find_plan(called),
        progress=find_progress(called),
    )


def with_workstreams(view: TurnView, cards: Mapping[UUID, Iterable[WorkstreamCard]]) -> TurnView:
    """Return the view with the cards of its run's workstreams. cards: by run."""
    own = cards.get(view.run_id) if view.run_id else None
    return replace(view, parts=placed(view.parts, own)) if own else view


def recorded_parts(
    steps: Iterable[StepView],
    executions: Sequence[ExecutionView],
    render: Callable[[str], SafeString],
    calls: CallDetails = NO_DETAILS,
    *,
    asker: str = "",
) -> list[Part]:
    """Return the parts of an open run, as far as they are recorded. asker: its workstream, empty for a root run."""
    parts: list[Part] = []
    for step in steps:
        if step.reasoning.strip():
            thought = step.reasoning[:LONGEST_REASONING]
            parts.append(ReasoningPart(step.index, thought, labels.duration(step.reasoning_seconds or None)))
        if step.text:
            parts.append(TextPart(step.index, step.text, render(step.text)))
        cards = [calls.card_of(item) for item in executions if item.step == step.index]
        parts += [replace(card, asker=asker) for card in cards] if asker else cards
    return parts


_FOR_WORKSTREAMS = Status("Waiting for workstreams", for_workstreams=True)


def status_of(run: RunView, parts: Iterable[Part] = (), place: int = 1) -> Status:
    """Return the status to show for an open run. place: in the queue, from 1."""
    if run.status is RunStatus.QUEUED:
        waits = run.waiting_on is WaitingOn.PLACE
        text = waits_for_place(settings.KOMAND_MAX_RUNNING_PER_USER) if waits else labels.in_line(place)
        return Status(text, is_queued=True)
    if run.waiting_on is WaitingOn.RETRY:
        return retry_status(run.error_message, run.retry_at)
    if run.waiting_on is WaitingOn.APPROVAL:
        cards = [part.approval for part in parts if isinstance(part, ToolCard) and part.approval]
        return Status(next((card.waiting_label for card in cards if card.is_pending), "Waiting for an approval"))
    if run.waiting_on is WaitingOn.TOOLS:
        return using(part.tool for part in parts if isinstance(part, ToolCard) and part.result is None)
    if run.waiting_on is WaitingOn.CHILDREN:
        return _FOR_WORKSTREAMS
    return Status(ASKING if run.waiting_on is WaitingOn.INPUT else THINKING)


def using(tools: Iterable[str]) -> Status:
    """Return the status while these tools run."""
    running = dict.fromkeys(tools)
    if names := ", ".join(tool for tool in running if tool not in ASKING_TOOLS | labels.QUIET_TOOLS):
        return Status(f"Using {names}…")
    if not running.keys().isdisjoint(ASKING_TOOLS):
        return Status(ASKING)
    return _FOR_WORKSTREAMS if WAIT_TOOL in running else Status(THINKING)


def _is_pinned(turns: Iterable[Turn], role: str) -> bool:
    return any(turn.is_pinned for turn in turns if turn.role == role)


def _question(turns: Sequence[Turn]) -> str:
    # An answer to a question of the agent has tool_call_ids: it is shown on the card of that question.
    return "\n\n".join(turn.content for turn in turns if turn.role == "user" and not turn.tool_call_ids)


def waiting_status(payload: RunWaiting) -> Status:
    """Return the status to show for a run that waits."""
    if payload["waiting_on"] == WaitingOn.CHILDREN:
        return _FOR_WORKSTREAMS
    if payload["waiting_on"] != WaitingOn.RETRY:
        return Status(payload["reason"] or "Waiting", is_queued=payload["waiting_on"] == WaitingOn.PLACE)
    return retry_status(payload["reason"], datetime.fromisoformat(payload["until"]) if payload["until"] else None)


def retry_status(reason: str, until: datetime | None) -> Status:
    """Return the status of a run whose model call is repeated: what happened, without what the reader could do."""
    what, _, more = reason.strip().partition(". ")
    detail = ". ".join(part for part in more.split(". ") if not part.startswith("Try again"))
    return Status(f"{what.removesuffix('.') or NO_ANSWER}. {RETRYING}", until=until, detail=detail)


def fallback_status(payload: ModelFallback) -> Status:
    """Return the status to show for a run that continues with another model."""
    return Status(f"Continuing with {payload['to']}", detail=payload["reason"])
