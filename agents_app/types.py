"""Frozen data of the runs: messages, model requests and responses, run and step views. Pure: no ORM, no settings."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from tools_app.policy.scope import INHERIT, Scope
from tools_app.types import ExecutionView, ToolCall, ToolSpec


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def is_terminal(self) -> bool:
        return self not in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING)


class WaitingOn(StrEnum):
    TOOLS = "tools"
    APPROVAL = "approval"
    INPUT = "input"
    CHILDREN = "children"
    RETRY = "retry"


@dataclass(frozen=True)
class Message:
    """One message of a model's history. role: system | user | assistant | tool."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True)
class RunOptions:
    """What one message asks of its run beyond the agent's set-up. instructions: added to the system prompt;
    output_schema: JSON Schema that the answer, as JSON, has to fit; temperature and max_output_tokens go to the model;
    note: what a surface keeps beside the run for itself, as JSON under its own name; retry_of: the run whose message it
    tries again.

    tools, mcp_servers: those that the run may use; may_widen: whoever asks might change the agent, so what they list
    counts where the agent has it not, too. Else it only takes away."""

    instructions: str = ""
    output_schema: dict[str, Any] | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    note: dict[str, Any] | None = None
    tools: Scope = INHERIT
    mcp_servers: Scope = INHERIT
    may_widen: bool = False
    retry_of: str = ""

    @property
    def chooses_tools(self) -> bool:
        return (self.tools, self.mcp_servers) != (INHERIT, INHERIT)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "RunOptions":
        """Of what `to_dict` gave."""
        fields = dict(stored)
        for name in {"tools", "mcp_servers"} & fields.keys():
            fields[name] = Scope.from_dict(fields[name])
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """JSON of what differs from the default."""
        differing = {name: value for name, value in vars(self).items() if value != getattr(RunOptions, name)}
        return {name: value.to_dict() if isinstance(value, Scope) else value for name, value in differing.items()}


@dataclass(frozen=True)
class ModelRequest:
    """One model call. idle_seconds: longest silence of the stream; total_seconds: the whole call.

    may_call_tools: False asks for an answer in words. The tools are named all the same, because a history with tool
    calls is refused by some servers when no tools are.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    may_call_tools: bool = True
    total_seconds: float = 300.0
    idle_seconds: float = 60.0
    options: RunOptions = RunOptions()


@dataclass(frozen=True)
class TextDelta:
    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True)
class ModelResponse:
    """The whole response; the last thing a provider's stream yields. finish_reason: stop | tool_calls | length | …"""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)


ModelChunk = TextDelta | ReasoningDelta | ModelResponse


@dataclass(frozen=True)
class Limits:
    """An agent's limits for one message. active_seconds: time under lease; tools, waiting and queueing do not count."""

    tool_rounds: int = 10
    active_seconds: float = 120.0
    call_seconds: float = 300.0
    idle_seconds: float = 60.0
    tries: int = 2
    retry_first_seconds: float = 2.0
    retry_factor: float = 2.0
    retry_max_seconds: float = 30.0
    crashes: int = 3
    context_tokens: int = 100_000


@dataclass(frozen=True)
class StepView:
    """One recorded think: the whole response of one model call.

    index: place in the run, from 0; turns_seen: how many of the run's user turns the model had been shown.
    """

    index: int
    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    turns_seen: int = 1


@dataclass(frozen=True)
class Snapshot:
    """All that `next_step` looks at: recorded steps, executions, what was spent, what was asked of the run.

    user_turns: the run's own user turns, oldest first; more than one when it was steered. stopped, budget_refusal: why
    the emergency stop, or the cost budget, lets it go no further; empty when they do.
    """

    user_turns: tuple[str, ...]
    steps: tuple[StepView, ...]
    executions: tuple[ExecutionView, ...]
    limits: Limits
    active_seconds: float = 0.0
    cancel_requested: bool = False
    stopped: str = ""
    budget_refusal: str = ""


@dataclass(frozen=True)
class RunView:
    """A run as other apps see it. conversation_id is opaque here; error_code is stable, error_message readable."""

    id: UUID
    conversation_id: UUID
    agent_id: str
    ordinal: int
    status: RunStatus
    waiting_on: WaitingOn | None
    fence: int
    crashes: int
    error_code: str
    error_message: str
    retry_at: datetime | None
    request_id: str
    actor: str
    usage: Usage
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class RunTranscript:
    """Everything a run said and did, in order: what a conversation stores when the run ends.

    answer: the final text (may be partial when the run was cancelled or failed); executions in (step, call) order.
    """

    run: RunView
    steps: tuple[StepView, ...]
    executions: tuple[ExecutionView, ...]
    answer: str

    @property
    def answering_step(self) -> int:
        """The step whose text the answer is: the last recorded one, or the one that was open when the run ended."""
        last = self.steps[-1] if self.steps else None
        is_recorded = last is not None and not last.tool_calls and last.text == self.answer
        return len(self.steps) - 1 if is_recorded else len(self.steps)
