"""Messages, requests to a model and its responses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.types.message_parts import MessagePart, OmittedPart
from agents_app.types.run_options import RunOptions
from tools_app.types import ToolCall, ToolSpec


@dataclass(frozen=True)
class Message:
    """One message of a model's history. role: system | user | assistant | tool.

    reasoning, dialect_state: of an assistant message of the same run, for dialects that need them back.
    ordinal: ordinal of the run that stored it; None outside of a stored history.
    is_pinned: it is sent in full with every request.
    is_summary: it stands for the messages before it.
    is_recalled: it is the memories in front of a run's user turns.
    is_report: it reports about a child run, whose texts are below the first line, and asks for nothing by itself.
    is_result: it reports a result or an end.
    is_final: it asks a child run to answer with what it has.
    context: the author of a user's message in a group, and texts of others that belong to it; not part of the content.
    about: id and workstream of the child run that a report is about.
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
    is_final: bool = False
    context: str = ""


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
class ModelRequest:
    """One model call.

    parallel_tool_calls: whether a response may contain several calls; None for the default of the dialect
    may_call_tools: False demands a text. The tools are listed even then, because some servers reject a history with
        tool calls if no tools are listed.
    tool_choice: `required`, or the name of a tool, that the response has to call; empty: as the model decides
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
    tool_choice: str = ""


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
