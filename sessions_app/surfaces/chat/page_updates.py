"""Updates of the chat page: what `projection` makes of events, and `fragments` renders."""

from dataclasses import dataclass
from uuid import UUID

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.live_text import RenderedBlock
from sessions_app.surfaces.chat.tool_cards import CallResult, CallState, InputRequest, ToolCard
from sessions_app.surfaces.chat.turn_views import ASKING, Status
from tools_app.events import INPUT_REQUESTED
from tools_app.run_progress import Batch, Plan, Progress
from tools_app.types.questions import ASKING_TOOLS, Question


@dataclass(frozen=True)
class ShowTurn:
    """Show the turn of a run, or update its question if the turn is shown.

    message_id: given by the sender, if any.
    seq: seq of the event that changed the question, 0 if it is new.
    """

    run_id: UUID
    message_id: str = ""
    seq: int = 0


@dataclass(frozen=True)
class ShowText:
    """Show a piece of a step's text.

    blocks: finished Markdown blocks, which replace the text up to their ends.
    text: begins at `offset`, in code points.
    draft: the open block behind them, if it was rendered anew.
    """

    run_id: UUID
    step: int
    offset: int
    text: str
    blocks: tuple[RenderedBlock, ...] = ()
    draft: RenderedBlock | None = None


@dataclass(frozen=True)
class DiscardText:
    """Discard the text of a step, and perhaps its reasoning: another follows."""

    run_id: UUID
    step: int
    with_reasoning: bool = False


@dataclass(frozen=True)
class ShowReasoning:
    """Show a piece of a step's reasoning, which begins at `offset`, in code points."""

    run_id: UUID
    step: int
    offset: int
    text: str


@dataclass(frozen=True)
class ShowCall:
    """Show a tool card below the text of its step."""

    run_id: UUID
    call: ToolCard


@dataclass(frozen=True)
class ChangeCall:
    """Change the state of a tool card, and show its result once the call has ended."""

    state: CallState
    result: CallResult | None = None


@dataclass(frozen=True)
class ShowQuestion:
    """Show what a call asks while it runs, on its card."""

    run_id: UUID
    asked: InputRequest


def questions_shown(run_id: UUID, seen: SessionEvent) -> "list[PageUpdate]":
    """Return the update for what a call asks while it runs. The card of any other question shows it already."""
    if seen.type != INPUT_REQUESTED.name or seen.payload.get("tool") in ASKING_TOOLS:
        return []
    payload = INPUT_REQUESTED.payload(seen)
    questions = tuple(map(Question.from_json, payload.get("questions", ())))  # a release before stored none
    asked = InputRequest(UUID(payload["execution_id"]), questions, is_of_call=True) if questions else None
    return [ShowQuestion(run_id, asked)] if asked else []


@dataclass(frozen=True)
class ShowApproval:
    """Show a request for approval as it is now, below its call."""

    run_id: UUID
    approval_id: UUID


@dataclass(frozen=True)
class ShowStatus:
    """Show the status of a run.

    is_announced: screen readers announce it.
    announcement: text that they announce instead.
    """

    run_id: UUID
    status: Status
    is_announced: bool = False
    announcement: str = ""


def asking_status(run_id: UUID, seen: SessionEvent) -> ShowStatus:
    """Return the status of a run that asks a question. Screen readers announce the question and its options."""
    asked = INPUT_REQUESTED.payload(seen)
    texts = [question["text"] for question in asked.get("questions", ())] or [asked.get("question", "")]
    options = ", ".join(asked.get("options", ()))
    announcement = "\n".join([*texts, f"Options: {options}."] if options else texts)
    return ShowStatus(run_id, Status(ASKING), is_announced=True, announcement=announcement)


@dataclass(frozen=True)
class ShowPlan:
    """Show the plan of a run as it is now."""

    run_id: UUID
    plan: Plan


@dataclass(frozen=True)
class ShowProgress:
    """Show how far a run is."""

    run_id: UUID
    progress: Progress


@dataclass(frozen=True)
class ShowBatch:
    """Show the state of a batch on the card of its call."""

    run_id: UUID
    call_id: UUID
    batch: Batch


@dataclass(frozen=True)
class ShowWorkstream:
    """Show the card of a child run as it is now. is_announced: screen readers announce its state."""

    run_id: UUID
    is_announced: bool = False


@dataclass(frozen=True)
class ShowAnswer:
    """Replace the streamed text with the stored answer: the run has ended."""

    run_id: UUID


@dataclass(frozen=True)
class ShowQueue:
    """Show the current place of each queued message."""


@dataclass(frozen=True)
class ShowFiles:
    """Show the files of the session: one was added or changed."""


@dataclass(frozen=True)
class ShowBranch:
    """Show the turns of the active branch in place of those shown. place: the lowest ordinal that differs."""

    place: int


@dataclass(frozen=True)
class ShowAgent:
    """Show the agent that answers from now on."""

    agent_id: str


TextUpdate = ShowText | ShowReasoning | DiscardText | ShowCall | ChangeCall | ShowQuestion | ShowApproval
WorkUpdate = ShowPlan | ShowProgress | ShowBatch
PageUpdate = (
    ShowTurn
    | TextUpdate
    | WorkUpdate
    | ShowWorkstream
    | ShowStatus
    | ShowAnswer
    | ShowQueue
    | ShowAgent
    | ShowFiles
    | ShowBranch
)
