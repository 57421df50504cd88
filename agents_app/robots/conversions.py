"""Between the messages of a model's history and typed ones. Pure.

What is lost on the way out: how a model spelt its arguments and a tool its result (both become values; broken arguments
become none), and the receipt of a result. On the way back: stop reasons, and whether words stood in a message of their
own before the calls that follow them. A second trip loses nothing more.
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
    """A history as typed messages. Words beside tool calls become a message before them."""
    return tuple(_typed(messages))


def untyped(messages: Sequence[AnyMessage]) -> tuple[Message, ...]:
    """Typed messages as a history. An assistant's words right before calls of tools become one message with them."""
    history: list[Message] = []
    for message in messages:
        match message:
            case TextMessage():
                history.append(Message(_role(message.role), message.content))
            case ToolCallMessage():
                calls = tuple(ToolCall(tool.id, tool.name, _as_json(tool.input)) for tool in message.tools)
                last = history[-1] if history else None
                words = ""
                if last and last.role == _role(message.role) and not last.tool_calls and last.role == "assistant":
                    words = history.pop().content
                history.append(Message(_role(message.role), words, calls))
            case ToolResultMessage():
                history.append(Message("tool", _result_text(message), tool_call_id=message.tool.id))
    return tuple(history)


def result_content(text: str) -> dict[str, Any]:
    """What a model was told of a call, as the content of a tool result."""
    told = without_receipt(text)
    failure = next((start for start in _FAILURES if told.startswith(start)), "")
    if failure:
        return {"error": told if failure != _FAILED else told.removeprefix(_FAILED)}
    return {"data": _value(told)}


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
    """The JSON value, or the text itself when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
