"""Frozen data of the tools: declarations, calls, executions and approvals. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar, cast
from uuid import UUID

from audit_app.event_types import EventType
from tools_app.credential_use import NO_CREDENTIALS, CredentialUse
from tools_app.question_types import Question

V = TypeVar("V")

# An event type of `tools_app.events` with the payload beside that of every call.
Report = tuple[EventType[Any], dict[str, Any]]


class Effect(StrEnum):
    """Repetition safety of a call: decides what happens when its process dies during the call.

    READ: changes nothing; the call is run again.
    KEYED: the remote side deduplicates by `ToolContext.effect_key`; the call is run again with the same key.
    ONCE: may change anything; never repeated, so the outcome after a crash is `unknown`.
    """

    READ = "read"
    KEYED = "keyed"
    ONCE = "once"


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class ExecutionStatus(StrEnum):
    """Status of an execution. UNKNOWN: its process died, so the call may have taken effect."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    CANCELLED = "Cancelled"
    UNKNOWN = "Unknown"

    @property
    def is_terminal(self) -> bool:
        return self not in (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)


class ApprovalStatus(StrEnum):
    """Status of an approval request. CANCELLED: the call was cancelled before the decision."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Decision(StrEnum):
    """Decision of an approver.

    ALLOW_RUN: for the rest of the run.
    ALLOW_ALWAYS: for the agent, until revoked.
    """

    ALLOW_ONCE = "allow_once"
    ALLOW_RUN = "allow_run"
    ALLOW_ALWAYS = "allow_always"
    DENY = "deny"


class TargetKind(StrEnum):
    """Kind of an argument that names what a call reaches."""

    URL = "url"
    PATH = "path"


class Reads(StrEnum):
    """Content that the results of a tool can bring into a run.

    NOTHING: no more than the arguments and what operators have put there.
    STORED: what runs and users have stored; the result names the origins under `origins`.
    OUTSIDE: what others wrote, such as a page or the answer of a server.
    """

    NOTHING = "nothing"
    STORED = "stored"
    OUTSIDE = "outside"


@dataclass(frozen=True)
class ToolSpec:
    """Declaration of a tool.

    parameters: JSON Schema of an object.
    timeout_seconds: default time limit of a call; a call may request another one.
    targets: arguments that name what the call reaches, so that rules about hosts and paths apply to them.
    reaches: URL that every call goes to.
    server: MCP server that provides the tool, if any.
    stands_for: tool that this one is another name of; rules that deny that tool deny this one.
    prompt_line: line about the tool in the system prompt; empty for none.
    has_sources: its results list the passages they are taken from, see `executions.result_sources`.
    reads: content that its results can bring into a run.
    sends: arguments that leave the installation; None for all of them.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect = Effect.ONCE
    risk: Risk = Risk.HIGH
    timeout_seconds: int = 60
    targets: dict[str, TargetKind] = field(default_factory=dict)
    reaches: str = ""
    server: str = ""
    stands_for: str = ""
    prompt_line: str = ""
    has_sources: bool = False
    reads: Reads = Reads.OUTSIDE
    sends: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ToolCall:
    """A call requested by the model.

    id: chosen by the model.
    arguments: raw JSON text, which may be malformed.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ToolContext:
    """Context of a running call. effect_key: idempotency key, the same for every repetition of the call.

    parent_run_id: id of a child run.
    """

    execution_id: UUID
    run_id: UUID
    session_id: UUID
    agent_id: str
    actor: str
    effect_key: str
    timeout_seconds: int
    parent_run_id: UUID | None = None


@dataclass(frozen=True)
class Change:
    """A text before and after a call, shown to the approver. name: of the text, such as a path."""

    before: str
    after: str
    name: str = ""


class ToolError(Exception):
    """Failure of a tool call. The message is sent to the model."""


class BaseTool(ABC):
    """Base class of all tools. needs_run: its calls need a stored run, so robots do not have it."""

    spec: ToolSpec
    needs_run: ClassVar[bool] = False

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        """Return the risk of this call: by default the declared one."""
        return self.spec.risk

    def effect_of(self, arguments: dict[str, Any]) -> Effect:
        """Return the effect of this call: by default the declared one."""
        return self.spec.effect

    def credentials_of(self, arguments: dict[str, Any], actor: str) -> CredentialUse:
        """Return the credentials that this call of the actor uses: by default none."""
        return NO_CREDENTIALS

    def check(self, arguments: dict[str, Any]) -> None:
        """Raise ToolError if no such call can succeed, before anybody is asked to approve it. Quick; reads no rows."""
        return

    def preview(self, arguments: dict[str, Any], *, run_id: UUID, session_id: UUID, agent_id: str) -> Change | None:
        """Return the change that the call would make, for the approver, or None if there is none to show.

        Called in web processes: must be quick and must not change anything.
        """
        return None

    def report_of(self, value: Any) -> Report | None:
        """Return the event that is stored with the result `value` of a call, such as a new plan: by default none."""
        return None


class Tool(BaseTool):
    """A tool whose calls run in a process of a tools worker. Stateless: one instance serves all calls of a process."""

    @abstractmethod
    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Carry out the call and return a JSON value.

        arguments: valid for `spec.parameters`.
        Raises ToolError with a message for the model. Any other exception counts as a fault of the tool: it is logged,
        and the model receives no details.
        """


class AsyncTool(BaseTool):
    """A tool that mostly waits for a server. Its calls run on the event loop of a runs worker and must never block it.

    Connections outlive calls. A cancelled task ends the call.
    """

    @abstractmethod
    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Carry out the call and return a JSON value. Raises ToolError, as `Tool.run` does."""


class HumanTool(BaseTool):
    """A tool that a user carries out with their next message. A waiting call occupies database rows only."""

    @abstractmethod
    def questions_of(self, arguments: dict[str, Any]) -> tuple[Question, ...]:
        """Return the questions to show, at least one. arguments: as `check` accepts them."""

    @abstractmethod
    def answer_of(self, questions: Sequence[Question], text: str) -> Any:
        """Return the JSON value of the result for the user's reply `text`, which answers all questions."""


class BatchTool(BaseTool):
    """A tool whose call stands for calls of another tool, planned with it. No process runs the call itself."""

    @abstractmethod
    def calls_of(self, arguments: dict[str, Any]) -> tuple[ToolCall, ...]:
        """Return the calls to make. arguments: valid for `spec.parameters`."""


AnyTool = Tool | AsyncTool | HumanTool | BatchTool


@dataclass(frozen=True)
class ExecutionView:
    """An execution as other apps see it. output: JSON text of the result, or None."""

    id: UUID
    run_id: UUID
    session_id: UUID
    agent_id: str
    step: int
    call_index: int
    call_id: str
    tool: str
    arguments: dict[str, Any]
    status: ExecutionStatus
    output: str | None
    error: str | None
    timeout_seconds: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    duration_seconds: float | None = field(default=None)
    receipt: str = ""  # empty while open, and for executions older than receipts
    origins: tuple[str, ...] = ()  # of what its result brings into the run, see `policy.taint`

    @property
    def text_for_model(self) -> str:
        """Return the exact text of the result in the model's history: output or error, then the receipt line."""
        text = result_text(self.status, self.output, self.error)
        return f"{text}{_RECEIPT_LINE}{self.receipt}]" if self.receipt else text


@dataclass(frozen=True)
class ApprovalView:
    """An approval request as other apps see it.

    reason: why the policy requires approval.
    note: comment of the approver.
    decision: empty while pending.
    choices: decisions that may be made.
    run_pattern, pattern: calls that ALLOW_RUN and ALLOW_ALWAYS would allow.
    needs_two: two people must allow it.
    first_allowed_by: the actor who did so first.
    origins: what the run had read from outside before the call, see `policy.taint`.
    credentials, credential_owner: of the call, see `CredentialUse`.
    """

    id: UUID
    execution_id: UUID
    run_id: UUID
    session_id: UUID
    agent_id: str
    tool: str
    arguments: dict[str, Any]
    risk: str
    reason: str
    status: ApprovalStatus
    decided_by: str
    note: str
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decision: str = ""
    choices: tuple[Decision, ...] = tuple(Decision)
    run_pattern: str = ""
    pattern: str = ""
    needs_two: bool = False
    first_allowed_by: str = ""
    origins: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    credential_owner: str = ""


def view_of(view: Callable[..., V], row: object, **given: Any) -> V:
    """Return a frozen view (a dataclass): the given values, and the row's columns for all other fields."""
    names = [each.name for each in fields(cast(Any, view)) if each.name not in given]
    return view(**{name: getattr(row, name) for name in names}, **given)


def result_text(status: ExecutionStatus, output: str | None, error: str | None) -> str:
    """Return the text of a tool result in the model's history, without its receipt line.

    Receipts sign this text and recompute it when they are verified: changing it invalidates every receipt issued
    before, unless `receipts.mac` gets a new version.
    """
    if status is ExecutionStatus.COMPLETED:
        return output if output is not None else ""
    return f"[{status}] {error or 'The tool call did not complete.'}"


_RECEIPT_LINE = "\n[receipt: "


def without_receipt(text: str) -> str:
    """Return the text of a tool result without its receipt line."""
    body, line, _ = text.rpartition(_RECEIPT_LINE)
    return body if line else text
