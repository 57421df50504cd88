"""The result of an agent: its messages, tool calls and usage. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

from agents_app.robots.conversions import result_content
from agents_app.robots.messages import (
    AnyMessage,
    Role,
    StopReason,
    TextMessage,
    ToolMessage,
    ToolResultMessage,
    messages_from,
)
from agents_app.types import RunTranscript
from tools_app.types import ExecutionView

_PLAIN = ("stop_reason", "duration", "input_tokens", "output_tokens")
_DEBUG = ("prompt", "history", "raw", "delegated_by")


@dataclass(frozen=True)
class RobotResult:
    """The result of an agent. None: unknown.

    tool_calls: the results of its tool calls
    created_at: aware
    prompt, history, raw: for debugging
    stop_reason: as named by the provider
    duration: seconds
    input_tokens, output_tokens: of the last response only
    delegated_by: the agent that delegated the work
    """

    robot_name: str
    output: tuple[AnyMessage, ...] = ()
    tool_calls: tuple[AnyMessage, ...] = ()
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    id: str = field(default_factory=lambda: str(uuid4()))
    prompt: Any = None
    history: Any = None
    raw: Any = None
    stop_reason: str | None = None
    duration: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    delegated_by: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", tuple(self.output))
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))

    @property
    def last_text_content(self) -> str | None:
        return next((message.content for message in reversed(self.output) if isinstance(message, TextMessage)), None)

    @property
    def reply(self) -> str | None:
        return self.last_text_content

    @property
    def has_tool_calls(self) -> bool:
        return bool(self.tool_calls)

    @property
    def is_stopped(self) -> bool:
        """Return whether the agent had finished, by its last message or the provider's stop reason."""
        has_stop = bool(self.output) and self.output[-1].is_stopped
        return has_stop or StopReason.of_provider(self.stop_reason) is StopReason.STOP

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of output, tool calls and the second of creation. Compare results by `digest`."""
        return _sha256({**self._content(), "created_at": int(self.created_at.timestamp())})

    @property
    def digest(self) -> str:
        """Return the SHA-256 of output and tool calls, which is the same for equal results."""
        return _sha256(self._content())

    def export(self) -> dict[str, Any]:
        """Return the JSON form for storage, without fields that are None and without those for debugging."""
        shown = {
            "robot_name": self.robot_name,
            **self._content(),
            "created_at": self.created_at.isoformat(),
            "id": self.id,
            "checksum": self.checksum,
            **{name: getattr(self, name) for name in _PLAIN},
        }
        return {name: value for name, value in shown.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return the export with prompt, history, raw and delegated_by."""
        debug = {name: getattr(self, name) for name in _DEBUG}
        return {**self.export(), **{name: value for name, value in debug.items() if value is not None}}

    def to_json(self) -> str:
        """Return the export as text. It omits `raw`, which JSON may be unable to represent."""
        return json.dumps(self.export(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RobotResult":
        """Return the result of `to_dict` or `export`. The checksum is computed again. Raises ValueError, KeyError."""
        known = {name: data[name] for name in (*_PLAIN, *_DEBUG, "id") if name in data}
        return cls(
            data["robot_name"],
            messages_from(data.get("output") or ()),
            messages_from(data.get("tool_calls") or ()),
            datetime.fromisoformat(data["created_at"]),
            **known,
        )

    @classmethod
    def from_hash(cls, data: Mapping[str, Any]) -> "RobotResult":
        """Return the result of `from_dict`."""
        return cls.from_dict(data)

    def _content(self) -> dict[str, Any]:
        return {
            "output": [message.to_dict() for message in self.output],
            "tool_calls": [message.to_dict() for message in self.tool_calls],
        }


def reply_text(content: str, thinking: str, history: Sequence[AnyMessage]) -> str:
    """Return the reply: the content, else the thinking, else the last assistant text since the last user turn."""
    if content.strip():
        return content
    if thinking.strip():
        return thinking
    for message in reversed(history):
        if message.is_user:
            break
        if isinstance(message, TextMessage) and message.is_assistant and message.content.strip():
            return message.content
    return ""


def tool_results(executions: Iterable[ExecutionView]) -> tuple[ToolResultMessage, ...]:
    """Return the results of tool calls as messages."""
    return tuple(
        ToolResultMessage(ToolMessage(one.call_id, one.tool, one.arguments), result_content(one.text_for_model))
        for one in executions
    )


def result_of(transcript: RunTranscript) -> RobotResult:
    """Return the result of an ended run, with the run's id and the results of all its tool calls."""
    run, steps = transcript.run, transcript.steps
    last = steps[-1] if steps else None
    history = [TextMessage(Role.ASSISTANT, step.text) for step in steps if step.text]
    text = reply_text(transcript.answer, last.reasoning if last else "", history)
    return RobotResult(
        run.agent_id,
        (TextMessage(Role.ASSISTANT, text),) if text else (),
        tool_results(transcript.executions),
        run.ended_at or run.created_at,
        str(run.id),
        stop_reason=last.finish_reason if last else None,
        duration=(run.ended_at - run.started_at).total_seconds() if run.ended_at and run.started_at else None,
        input_tokens=last.usage.input_tokens if last else None,
        output_tokens=last.usage.output_tokens if last else None,
    )


def _sha256(value: Any) -> str:
    return sha256(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")).hexdigest()
