"""Conversions between the messages of a model's history and typed messages. Pure.

`typed` loses the spelling of arguments and results, which become values (invalid arguments become an empty object), and
the receipts of results. `untyped` loses stop reasons, and whether a text before tool calls was a message of its own.
Converting again loses nothing more.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from agents_app.robots.messages import AnyMessage, Role, TextMessage, ToolCallMessage, ToolMessage, ToolResultMessage
from agents_app.types import Message
from tools_app.types import ExecutionStatus, ToolCall, without_receipt

_FAILURES = tuple(f"[{status}] " for status in ExecutionStatus if status is not ExecutionStatus.COMPLETED)
_FAILED = f"[{ExecutionStatus.FAILED}] "


def typed(messages: Sequence[Message]) -> tuple[AnyMessage, ...]:
    """Return a history as typed messages. A text beside tool calls becomes a message before them."""
    return tuple(_typed(messages))


def untyped(messages: Sequence[AnyMessage]) -> tuple[Message, ...]:
    """Return typed messages as a history. An assistant's text directly before tool calls is merged with them."""
    history: list[Message] = []
    for message in messages:
        match message:
            case TextMessage():
                history.append(Message(_role(message.role), message.content))
            case ToolCallMessage():
                calls = tuple(ToolCall(tool.id, tool.name, _as_json(tool.input)) for tool in message.tools)
                last = history[-1] if history else None
                text = ""
                if last and last.role == _role(message.role) and not last.tool_calls and last.role == "assistant":
                    text = history.pop().content
                history.append(Message(_role(message.role), text, calls))
            case ToolResultMessage():
                history.append(Message("tool", _result_text(message), tool_call_id=message.tool.id))
    return tuple(history)


def result_content(text: str) -> dict[str, Any]:
    """Return the text of a result for the model as the content of a typed tool result."""
    result = without_receipt(text)
    if result.startswith(_FAILURES):
        return {"error": result.removeprefix(_FAILED)}
    return {"data": _value(result)}


def _typed(messages: Sequence[Message]) -> Iterator[AnyMessage]:
    calls: dict[str, ToolMessage] = {}
    for message in messages:
        if message.role == "tool":
            tool = calls.get(message.tool_call_id) or ToolMessage(message.tool_call_id, "")
            yield ToolResultMessage(tool, result_content(message.content))
            continue
        if message.content or not message.tool_calls:
            yield TextMessage(Role(message.role), message.content)
        if message.tool_calls:
            tools = tuple(ToolMessage(call.id, call.name, _object(call.arguments)) for call in message.tool_calls)
            calls |= {tool.id: tool for tool in tools}
            yield ToolCallMessage(Role(message.role), tools)


def _role(role: Role) -> str:
    return "tool" if role is Role.TOOL_RESULT else role.value


def _result_text(message: ToolResultMessage) -> str:
    if not message.error_p:
        return _as_json(message.data if message.success else message.content)
    error = message.error if isinstance(message.error, str) else _as_json(message.error)
    return error if error.startswith(_FAILURES) else f"{_FAILED}{error}"


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(text: str) -> dict[str, Any]:
    value = _value(text)
    return value if isinstance(value, dict) else {}


def _value(text: str) -> Any:
    """Return the JSON value, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
