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


@dataclass(frozen=True)
class ToolSpec:
    """parameters: JSON Schema of an object; timeout_seconds: default limit of one call (a call may ask for another)."""

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect = Effect.ONCE
    risk: Risk = Risk.HIGH
    timeout_seconds: int = 60


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


class ToolError(Exception):
    """A tool could not do what was asked. The message goes to the model."""


class Tool(ABC):
    """One thing an agent can do. Stateless: one instance serves every call, in several processes."""

    spec: ToolSpec

    @abstractmethod
    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Do it and return a JSON value (or text). arguments match `spec.parameters`. Raises ToolError for the model
        to read; any other exception is a fault of the tool, told to the model without its details."""

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        """The risk of this very call; the declared one unless the tool knows better."""
        return self.spec.risk


class LoopTool(ABC):
    """A tool that mostly waits for another server: it runs on the event loop of a runs worker, where a connection can
    outlive the call, instead of in a process of its own. Never block in it; a cancelled task ends the call."""

    spec: ToolSpec

    @abstractmethod
    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """As `Tool.run`: a JSON value or text, or ToolError for the model to read."""

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        """The risk of this very call; the declared one unless the tool knows better."""
        return self.spec.risk


AnyTool = Tool | LoopTool


@dataclass(frozen=True)
class AgentPolicy:
    """What an agent may do. autonomy: readonly | supervised | full; tools: names allowed, or None for every tool;
    agent_id: its public id, which may have tools of its own."""

    autonomy: str = "supervised"
    tools: tuple[str, ...] | None = None
    agent_id: str = ""


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

    @property
    def text_for_model(self) -> str:
        """Exactly what the model is told: the output as is, or a JSON object that names the failure."""
        return result_text(self.status, self.output, self.error)


@dataclass(frozen=True)
class ApprovalView:
    """One request as other apps see it. reason: why the policy asks; note: what the person who decided added."""

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


def result_text(status: ExecutionStatus, output: str | None, error: str | None) -> str:
    """The text of a tool result in the model's history."""
    if status is ExecutionStatus.COMPLETED:
        return output if output is not None else ""
    return f"[{status}] {error or 'The tool call did not complete.'}"
