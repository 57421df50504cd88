"""Frozen data of the runs: messages, model requests and responses, run and step views. Pure: no ORM, no settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from agents_app.context_types import ContextOverflow, ContextSize
from agents_app.context_types import Limits as Limits
from agents_app.message_parts import LoadedPart as LoadedPart
from agents_app.message_parts import MessagePart as MessagePart
from agents_app.message_parts import OmittedPart as OmittedPart
from agents_app.message_parts import VoiceNotes
from tools_app.policy.scope import INHERIT, Scope
from tools_app.types import ExecutionView, ToolCall, ToolSpec

REJECTED = "rejected"  # finish reason of a step whose answer does not match the JSON Schema


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
    PARENT = "parent"
    RETRY = "retry"


@dataclass(frozen=True)
class Message:
    """One message of a model's history. role: system | user | assistant | tool.

    parts: of a user's message
    reasoning, dialect_state: of an assistant message of the same run, for dialects that need them back
    ordinal: that of the run that stored it; None outside of a stored history
    is_pinned: it is sent in full with every request. is_summary: it stands for the messages before it
    is_recalled: it is the memories in front of a run's user turns
    is_report: it reports about a child run and asks for nothing by itself. is_result: it reports a result or an end
    about: of a report: the id and the workstream of the child run
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    parts: tuple[MessagePart, ...] = ()
    reasoning: str = ""
    dialect_state: Mapping[str, Any] | None = None
    ordinal: int | None = None
    is_pinned: bool = False
    is_summary: bool = False
    is_recalled: bool = False
    is_report: bool = False
    is_result: bool = False
    about: tuple[str, ...] = ()


@dataclass(frozen=True)
class Usage:
    """The tokens of model calls.

    cached_input_tokens: the part of the input that the server had cached
    reasoning_tokens: the part of the output that is reasoning
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True)
class RunOptions:
    """Options of one message for its run, in addition to the agent's settings.

    instructions: text that is appended to the system prompt
    output_schema: JSON Schema of the answer
    temperature, max_output_tokens: for the model
    sampling: top_p, presence_penalty, frequency_penalty and stop, as chat completions name them
    model: instead of the agent's; the caller has checked that the sender may choose it
    max_tool_rounds: at most the agent's
    note: JSON that a surface stores with the run, under the surface's name
    tools, mcp_servers: those that the run may use
    may_widen: the sender may configure the agent, so `tools` and `mcp_servers` can add to the agent's, not only
        restrict them
    retry_of: id of the run that this run retries
    agent_version: number of the agent's version to use, 0 for the draft; None: as the agent is when it is claimed. The
        caller has checked that the sender may use it
    compacts_only: the run answers nothing: it compacts its conversation
    network: the network that the run executes instead of calling a model: {name, version, definition, context}
    """

    instructions: str = ""
    output_schema: dict[str, Any] | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    sampling: dict[str, Any] | None = None
    model: str = ""
    max_tool_rounds: int | None = None
    note: dict[str, Any] | None = None
    tools: Scope = INHERIT
    mcp_servers: Scope = INHERIT
    may_widen: bool = False
    retry_of: str = ""
    agent_version: int | None = None
    compacts_only: bool = False
    network: dict[str, Any] | None = None

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

    parallel_tool_calls: whether a response may contain several calls; None for the default of the dialect
    may_call_tools: False demands a text. The tools are listed even then, because some servers reject a history with
        tool calls if no tools are listed.
    total_seconds: time limit of the call
    idle_seconds: longest pause of the stream
    omitted: parts of its messages that are described in their text instead
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    may_call_tools: bool = True
    total_seconds: float = 300.0
    idle_seconds: float = 60.0
    options: RunOptions = RunOptions()
    parallel_tool_calls: bool | None = None
    omitted: tuple[OmittedPart, ...] = ()


@dataclass(frozen=True)
class TextDelta:
    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True)
class ModelResponse:
    """The whole response: the last item of a provider's stream. finish_reason: stop | tool_calls | length | …

    dialect_state: JSON that the dialect needs back with the message while the run calls tools; clients never see it.
    reasoning_seconds, omitted: set by the reader of the stream, not by providers.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    reasoning_seconds: float = 0.0
    dialect_state: Mapping[str, Any] | None = None
    omitted: tuple[OmittedPart, ...] = ()


ModelChunk = TextDelta | ReasoningDelta | ModelResponse


@dataclass(frozen=True)
class StepView:
    """A recorded step: the whole response of one model call.

    index: place in the run, from 0; turns_seen: number of the run's user turns that the request contained.
    rejected_text: the answer if it does not match the JSON Schema; `text` is empty then, and only the model sees it.
    """

    index: int
    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    turns_seen: int = 1
    reasoning_seconds: float = 0.0
    rejected_text: str = ""
    dialect_state: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Snapshot:
    """The state of a run on which `next_step` decides.

    user_turns: the run's user turns, oldest first; several if it was steered
    stopped, budget_refusal: the reason why the emergency stop, or the cost budget, forbids another model call; empty
        if they do not
    output_schema: JSON Schema of the answer, if it has one
    context: sizes of what its requests contain besides its own messages
    compactions: recorded compactions of this run, also failed ones
    preparations: recorded compactions and transcriptions of this run
    voice: voice notes among its user turns
    overflow: of the last model call, if its server refused it as too long
    compacts_only: it answers nothing
    recalled: memories in front of its user turns
    working: (id, workstream) of its child runs that work. Those that wait for it are not among them
    is_interactive, is_paused, is_terminating: of a child run; is_interactive: it waits after its task
    """

    user_turns: tuple[Message, ...]
    steps: tuple[StepView, ...]
    executions: tuple[ExecutionView, ...]
    limits: Limits
    active_seconds: float = 0.0
    cancel_requested: bool = False
    stopped: str = ""
    budget_refusal: str = ""
    output_schema: dict[str, Any] | None = None
    context: ContextSize = ContextSize()
    compactions: int = 0
    preparations: int = 0
    voice: VoiceNotes = VoiceNotes()
    overflow: ContextOverflow | None = None
    compacts_only: bool = False
    recalled: str = ""
    working: tuple[tuple[str, str], ...] = ()
    is_interactive: bool = False
    is_paused: bool = False
    is_terminating: bool = False


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
    agent_version: int | None = None
    parent_id: UUID | None = None
    workstream: str = ""


@dataclass(frozen=True)
class RunTranscript:
    """A run with its steps and executions: what a conversation stores when the run ends.

    executions: ordered by step and call
    answer: the final text; may be partial if the run was cancelled or failed
    is_structured: whether the answer has a JSON Schema; the text of a completed run is JSON then
    """

    run: RunView
    steps: tuple[StepView, ...]
    executions: tuple[ExecutionView, ...]
    answer: str
    is_structured: bool = False

    @property
    def usage(self) -> Usage:
        """Return the usage of the run, of which the cached and the reasoning tokens are those of its steps."""
        steps = sum((step.usage for step in self.steps), Usage())
        cached, reasoning = steps.cached_input_tokens, steps.reasoning_tokens
        return replace(self.run.usage, cached_input_tokens=cached, reasoning_tokens=reasoning)

    @property
    def answering_step(self) -> int:
        """Return the step whose text is the answer: the last recorded one, or the one that was open at the end."""
        last = self.steps[-1] if self.steps else None
        is_recorded = last is not None and not last.tool_calls and last.text == self.answer
        return len(self.steps) - 1 if is_recorded else len(self.steps)
