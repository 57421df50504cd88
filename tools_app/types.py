"""Frozen data of the tools: what a tool declares, what the model asked, what came of it. Pure: no ORM, no settings."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class Effect(StrEnum):
    """What happens when a call is repeated, which decides what a crash in mid-call may do.

    READ: nothing; run again. KEYED: the other side recognises `ToolContext.effect_key`; run again with the same key.
    ONCE: anything; never repeated, after a crash the outcome is `unknown`.
    """

    READ = "read"
    KEYED = "keyed"
    ONCE = "once"


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class ExecutionStatus(StrEnum):
    """The life of one execution. The first six are the contract's words; UNKNOWN is ours: it may have happened."""

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
    """A request for a person's decision. CANCELLED: the call was given up before anyone decided."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class InputStatus(StrEnum):
    """A question to a person. CANCELLED: the call was given up before anyone answered."""

    PENDING = "pending"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Decision(StrEnum):
    """What a person says to a request. ALLOW_RUN: for the rest of the run; ALLOW_ALWAYS: for the agent."""

    ALLOW_ONCE = "allow_once"
    ALLOW_RUN = "allow_run"
    ALLOW_ALWAYS = "allow_always"
    DENY = "deny"


class Target(StrEnum):
    """What an argument that says where a call reaches holds."""

    URL = "url"
    PATH = "path"


@dataclass(frozen=True)
class ToolSpec:
    """parameters: JSON Schema of an object; timeout_seconds: default limit of one call (a call may ask for another).

    targets: which arguments say where the call reaches, so that rules about hosts and paths hold for them; reaches: a
    URL that every call goes to. server: the MCP server that it is a tool of, if it is one; stands_for: the tool that it
    is another name of, so that what refuses that one refuses it. prompt_line: what the system prompt says of it, if
    anything. has_sources: its results say what they are taken from, see `sources`.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect = Effect.ONCE
    risk: Risk = Risk.HIGH
    timeout_seconds: int = 60
    targets: dict[str, Target] = field(default_factory=dict)
    reaches: str = ""
    server: str = ""
    stands_for: str = ""
    prompt_line: str = ""
    has_sources: bool = False


@dataclass(frozen=True)
class ToolCall:
    """What the model asked. id: the model's own; arguments: the raw JSON text, which may be broken."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ToolContext:
    """What a running tool knows of its surroundings. effect_key: the same for every repetition of this call."""

    execution_id: UUID
    run_id: UUID
    session_id: UUID
    agent_id: str
    actor: str
    effect_key: str
    timeout_seconds: int


@dataclass(frozen=True)
class Change:
    """What a call would do to a text, for the person who decides about it. name: what the text is, say a path."""

    before: str
    after: str
    name: str = ""


class ToolError(Exception):
    """A tool could not do what was asked. The message goes to the model."""


class BaseTool(ABC):
    """What every tool declares, however it is carried out."""

    spec: ToolSpec

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        """The risk of this very call; the declared one unless the tool knows better."""
        return self.spec.risk

    def effect_of(self, arguments: dict[str, Any]) -> Effect:
        """The effect of this very call; the declared one unless the tool knows better."""
        return self.spec.effect

    def preview(self, arguments: dict[str, Any], *, run_id: UUID, session_id: UUID, agent_id: str) -> Change | None:
        """What the call would change, shown to the person who is asked to approve it: a quick look that changes
        nothing, made where pages are. None: nothing to be seen beforehand, or the arguments say it all."""
        return None


class Tool(BaseTool):
    """One thing an agent can do. Stateless: one instance serves every call, in several processes."""

    @abstractmethod
    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Do it and return a JSON value (or text). arguments match `spec.parameters`. Raises ToolError for the model
        to read; any other exception is a fault of the tool, told to the model without its details."""


class AsyncTool(BaseTool):
    """A tool that mostly waits for another server: it runs on the event loop of a runs worker, where a connection can
    outlive the call, instead of in a process of its own. Never block in it; a cancelled task ends the call."""

    @abstractmethod
    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """As `Tool.run`: a JSON value or text, or ToolError for the model to read."""


@dataclass(frozen=True)
class Question:
    """What a person is asked. options: answers to choose from; allows_text: an answer in their own words counts too."""

    text: str
    options: tuple[str, ...] = ()
    allows_text: bool = True


class HumanTool(BaseTool):
    """A tool that a person carries out with their next message: the call waits for it in the database alone."""

    @abstractmethod
    def question_of(self, arguments: dict[str, Any]) -> Question:
        """What to ask. arguments match `spec.parameters`."""

    @abstractmethod
    def answer_of(self, question: Question, text: str) -> Any:
        """The JSON value that the model is told when the person wrote this."""


AnyTool = Tool | AsyncTool | HumanTool


@dataclass(frozen=True)
class ExecutionView:
    """One execution as other apps see it. output: JSON text of the tool's value, or None; duration in seconds."""

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
    receipt: str = ""  # empty while it is open, and for executions older than receipts

    @property
    def text_for_model(self) -> str:
        """Exactly what the model is told: the output or the error, and the receipt as its last line."""
        text = result_text(self.status, self.output, self.error)
        return f"{text}{_RECEIPT_LINE}{self.receipt}]" if self.receipt else text


@dataclass(frozen=True)
class InputView:
    """One question as other apps see it."""

    id: UUID
    execution_id: UUID
    run_id: UUID
    session_id: UUID
    question: Question
    status: InputStatus
    expires_at: datetime


@dataclass(frozen=True)
class ApprovalView:
    """One request as other apps see it.

    reason: why the policy asks; note: what the person who decided added; decision: what they said, empty while nobody
    has; choices: what may be said; run_pattern, pattern: what would be allowed for the run, and always.
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


def result_text(status: ExecutionStatus, output: str | None, error: str | None) -> str:
    """The text of a tool result in the model's history, without its receipt line.

    Receipts prove this very text and are checked against it as it is made then: a change of it voids those that were
    given out before, unless `trust.receipts` gets a new version.
    """
    if status is ExecutionStatus.COMPLETED:
        return output if output is not None else ""
    return f"[{status}] {error or 'The tool call did not complete.'}"


_RECEIPT_LINE = "\n[receipt: "


def without_receipt(text: str) -> str:
    """What a model was told of a call, without the line that proves it."""
    body, line, _ = text.rpartition(_RECEIPT_LINE)
    return body if line else text
