"""Typed messages: text, tool calls and tool results, each a frozen value with a JSON form.

Any other type, role or stop reason raises ValueError. `StopReason.of_provider` maps the stop reasons of providers.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar
from uuid import uuid4


class MessageType(StrEnum):
    TEXT = "text"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL_RESULT = "tool_result"


class StopReason(StrEnum):
    TOOL = "tool"
    STOP = "stop"

    @classmethod
    def of_provider(cls, reason: str | None) -> "StopReason | None":
        """Return the stop reason for a provider's; None for any other, such as `length`."""
        return _PROVIDERS_REASONS.get((reason or "").lower())


_PROVIDERS_REASONS = {
    "stop": StopReason.STOP,
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "tool": StopReason.TOOL,
    "tool_calls": StopReason.TOOL,
    "tool_use": StopReason.TOOL,
}


class Message(ABC):
    """The common fields of messages. Each also has a `content`: a text, an object, or None for tool calls."""

    type: ClassVar[MessageType]
    role: Role
    stop_reason: StopReason | None

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without fields that are None."""

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "AnyMessage":
        """Return the message of a JSON form; the default type is text. Raises ValueError if it is invalid."""
        match MessageType(data.get("type") or MessageType.TEXT):
            case MessageType.TOOL_CALL:
                tools = tuple(ToolMessage.from_dict(tool) for tool in _part(data, "tools"))
                return ToolCallMessage(_part(data, "role"), tools, data.get("stop_reason") or StopReason.TOOL)
            case MessageType.TOOL_RESULT:
                return ToolResultMessage(
                    ToolMessage.from_dict(_part(data, "tool")),
                    _part(data, "content"),
                    data.get("role") or Role.TOOL_RESULT,
                    data.get("stop_reason") or StopReason.TOOL,
                )
            case MessageType.TEXT:
                return TextMessage(_part(data, "role"), _part(data, "content"), data.get("stop_reason"))

    @staticmethod
    def from_hash(data: Mapping[str, Any] | None = None, /, **fields: Any) -> "AnyMessage":
        """Return the message of `from_dict`, also of keywords: `Message.from_hash(role="user", content="…")`."""
        return Message.from_dict({**(data or {}), **fields})

    @property
    def is_text(self) -> bool:
        return self.type is MessageType.TEXT

    @property
    def is_tool_call(self) -> bool:
        return self.type is MessageType.TOOL_CALL

    @property
    def is_tool_result(self) -> bool:
        return self.type is MessageType.TOOL_RESULT

    @property
    def is_system(self) -> bool:
        return self.role is Role.SYSTEM

    @property
    def is_user(self) -> bool:
        return self.role is Role.USER

    @property
    def is_assistant(self) -> bool:
        return self.role is Role.ASSISTANT

    @property
    def is_stopped(self) -> bool:
        return self.stop_reason is StopReason.STOP

    @property
    def is_tool_stop(self) -> bool:
        return self.stop_reason is StopReason.TOOL

    def __post_init__(self) -> None:
        """Convert role and stop reason from text."""
        object.__setattr__(self, "role", Role(self.role))
        object.__setattr__(self, "stop_reason", None if self.stop_reason is None else StopReason(self.stop_reason))

    def _compact(self, **fields: Any) -> dict[str, Any]:
        shown = {"type": self.type.value, "role": self.role.value, **fields}
        if self.stop_reason is not None:
            shown["stop_reason"] = self.stop_reason.value
        return shown


@dataclass(frozen=True)
class TextMessage(Message):
    type: ClassVar[MessageType] = MessageType.TEXT
    role: Role
    content: str
    stop_reason: StopReason | None = None

    def to_dict(self) -> dict[str, Any]:
        return self._compact(content=self.content)


@dataclass(frozen=True)
class ToolMessage:
    """A tool call within a message. input: the arguments."""

    id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict)
    type: ClassVar[str] = "tool"
    is_text: ClassVar[bool] = False
    is_tool_call: ClassVar[bool] = True
    is_tool_result: ClassVar[bool] = False

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "id": self.id, "name": self.name, "input": self.input}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ToolMessage":
        """Return the call of a JSON form with `input` or `arguments`. Raises ValueError."""
        given = data.get("input", data.get("arguments"))
        if given is not None and not isinstance(given, Mapping):
            raise ValueError("the input of a tool must be an object")
        return cls(_part(data, "id"), _part(data, "name"), dict(given or {}))


@dataclass(frozen=True)
class ToolCallMessage(Message):
    """Tool calls of the model. `content` is always None."""

    type: ClassVar[MessageType] = MessageType.TOOL_CALL
    role: Role
    tools: tuple[ToolMessage, ...]
    stop_reason: StopReason | None = StopReason.TOOL
    content: None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.content is not None:
            raise ValueError("a message with tool calls has no content")
        object.__setattr__(self, "tools", tuple(self.tools))

    def to_dict(self) -> dict[str, Any]:
        return self._compact(tools=[tool.to_dict() for tool in self.tools])


@dataclass(frozen=True)
class ToolResultMessage(Message):
    """The result of a tool call. content: `{"data": …}` or, if it failed, `{"error": …}`."""

    type: ClassVar[MessageType] = MessageType.TOOL_RESULT
    tool: ToolMessage
    content: dict[str, Any]
    role: Role = Role.TOOL_RESULT
    stop_reason: StopReason | None = StopReason.TOOL

    @property
    def success(self) -> bool:
        return isinstance(self.content, dict) and "data" in self.content

    @property
    def error_p(self) -> bool:
        return isinstance(self.content, dict) and "error" in self.content

    @property
    def data(self) -> Any:
        return self.content["data"] if self.success else None

    @property
    def error(self) -> Any:
        return self.content["error"] if self.error_p else None

    def to_dict(self) -> dict[str, Any]:
        return self._compact(tool=self.tool.to_dict(), content=self.content)


AnyMessage = TextMessage | ToolCallMessage | ToolResultMessage


@dataclass(frozen=True)
class UserMessage:
    """A user turn with its metadata. created_at: aware."""

    content: str
    session_id: str | None = None
    system_prompt: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(uuid4()))
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_message(self) -> TextMessage:
        return TextMessage(Role.USER, self.content)

    def to_dict(self) -> dict[str, Any]:
        shown = {**vars(self), "created_at": self.created_at.isoformat()}
        return {name: value for name, value in shown.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "UserMessage":
        """Return the user message of a JSON form. Raises ValueError."""
        known = {name: data[name] for name in ("session_id", "system_prompt", "metadata", "id") if name in data}
        if "created_at" in data:
            known["created_at"] = datetime.fromisoformat(data["created_at"])
        return cls(_part(data, "content"), **known)


def messages_from(listed: Sequence[Mapping[str, Any]]) -> tuple[AnyMessage, ...]:
    return tuple(map(Message.from_dict, listed))


def _part(data: Mapping[str, Any], name: str) -> Any:
    if data.get(name) is None:
        raise ValueError(f"the message has no {name!r}")
    return data[name]
