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
    """Options of one message for its run, in addition to the agent's settings.

    instructions: text that is appended to the system prompt
    output_schema: JSON Schema of the answer
    temperature, max_output_tokens: for the model
    model: instead of the agent's; the caller has checked that the sender may choose it
    max_tool_rounds: at most the agent's
    note: JSON that a surface stores with the run, under the surface's name
    tools, mcp_servers: those that the run may use
    may_widen: the sender may configure the agent, so `tools` and `mcp_servers` can add to the agent's, not only
        restrict them
    retry_of: id of the run that this run retries
    """

    instructions: str = ""
    output_schema: dict[str, Any] | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    model: str = ""
    max_tool_rounds: int | None = None
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
        fields = dict(stored)
        for name in {"tools", "mcp_servers"} & fields.keys():
            fields[name] = Scope.from_dict(fields[name])
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the values that differ from the defaults, as JSON."""
        differing = {name: value for name, value in vars(self).items() if value != getattr(RunOptions, name)}
        return {name: value.to_dict() if isinstance(value, Scope) else value for name, value in differing.items()}


@dataclass(frozen=True)
class ModelRequest:
    """One model call.

    may_call_tools: False demands a text. The tools are listed even then, because some servers reject a history with
        tool calls if no tools are listed.
    total_seconds: time limit of the call
    idle_seconds: longest pause of the stream
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
    """The whole response: the last item of a provider's stream. finish_reason: stop | tool_calls | length | …

    reasoning_seconds: set by who reads the stream, not by providers.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    reasoning_seconds: float = 0.0


ModelChunk = TextDelta | ReasoningDelta | ModelResponse


@dataclass(frozen=True)
class Limits:
    """An agent's limits for one message. active_seconds: time under lease, without tools, waiting and queueing."""

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
    """A recorded step: the whole response of one model call.

    index: place in the run, from 0; turns_seen: number of the run's user turns that the request contained.
    """

    index: int
    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    turns_seen: int = 1
    reasoning_seconds: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """The state of a run on which `next_step` decides.

    user_turns: texts of the run's user turns, oldest first; several if it was steered
    stopped, budget_refusal: the reason why the emergency stop, or the cost budget, forbids another model call; empty
        if they do not
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
    """A run for other apps. conversation_id: opaque here; error_code: stable; error_message: for users."""

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
    """A run with its steps and executions: what a conversation stores when the run ends.

    executions: ordered by step and call
    answer: the final text; may be partial if the run was cancelled or failed
    """

    run: RunView
    steps: tuple[StepView, ...]
    executions: tuple[ExecutionView, ...]
    answer: str

    @property
    def answering_step(self) -> int:
        """Return the step whose text is the answer: the last recorded one, or the one that was open at the end."""
        last = self.steps[-1] if self.steps else None
        is_recorded = last is not None and not last.tool_calls and last.text == self.answer
        return len(self.steps) - 1 if is_recorded else len(self.steps)
