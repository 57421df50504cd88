"""Messages of a request, read as ours: the conversation before it, and the user messages to answer. Pure.

They are the `messages` of Chat Completions or the `input` items of Responses. Images, audio and files are read from
data, not fetched: see `data_parts`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agents_app.types import Message
from sessions_app.surfaces.base.function_tools import ToolOutput, invalid_param
from sessions_app.surfaces.openai import data_parts
from tools_app.types import ToolCall

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_IGNORED_ITEMS = ("reasoning", "mcp_call", "mcp_list_tools")  # of our own responses, which clients send back whole
MOST_MESSAGES = 2_000


def read_messages(items: Any, param: str) -> tuple[Message, ...]:
    """Return the messages of a list. Raises InvalidInput. param: the name of the parameter, for errors."""
    if not isinstance(items, list) or not items:
        raise invalid_param(f"{param} must be a list of at least one message.", param)
    if len(items) > MOST_MESSAGES:
        raise invalid_param(f"{param} has {len(items):,} messages; at most {MOST_MESSAGES:,} are allowed.", param)
    return tuple(message for index, item in enumerate(items) for message in _read_item(item, f"{param}[{index}]"))


def read_conversation(items: Any, param: str) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return (the messages before, the user messages at the end, which are to be answered). Raises InvalidInput.

    Instead of user messages there may be outputs of the client's tools: see `outputs_at_end`.

    param: as for `read_messages`.
    """
    messages = read_messages(items, param)
    first = len(messages)
    while first and messages[first - 1].role == "user":
        first -= 1
    if first == len(messages) and not outputs_at_end(messages):
        raise invalid_param("The last message must be of the user, or the output of a tool.", param)
    return messages[:first], messages[first:]


def outputs_at_end(messages: Sequence[Message]) -> tuple[ToolOutput, ...]:
    """Return the outputs of tools with which a conversation ends."""
    first = len(messages)
    while first and messages[first - 1].role == "tool":
        first -= 1
    return tuple(ToolOutput(message.tool_call_id, message.content) for message in messages[first:])


def join_texts(messages: Sequence[Message]) -> str:
    """Return the texts of messages as one, with an empty line between them."""
    return "\n\n".join(message.content for message in messages)


def split_instructions(history: Sequence[Message]) -> tuple[str, tuple[Message, ...]]:
    """Return (the text of all system messages, the other messages)."""
    system = [message for message in history if message.role == "system"]
    return join_texts(system), tuple(message for message in history if message.role != "system")


def _read_text(content: Any, param: str, *, may_have_files: bool = False) -> str:
    """Return the text of a content: a string, or a list of text parts. may_have_files: ignore parts with files."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list):
        raise invalid_param(f"{param} must be a string or a list of parts.", param)
    return "".join(
        _read_part(part, f"{param}[{index}]")
        for index, part in enumerate(content)
        if not (may_have_files and data_parts.is_file(part))
    )


def _read_part(part: Any, param: str) -> str:
    if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS:
        text = part.get("text", part.get("refusal"))
        if isinstance(text, str):
            return text
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise invalid_param(f"A part of the type {kind!r} is not supported here.", param, "unsupported_content")


def _read_item(item: Any, param: str) -> list[Message]:
    if not isinstance(item, Mapping):
        raise invalid_param(f"{param} must be an object with a role.", param)
    kind = item.get("type", "message")
    if kind in _IGNORED_ITEMS:
        return []
    if kind == "function_call":
        return [Message("assistant", "", (_read_call(item, _text(item, "call_id", param), param),))]
    if kind == "function_call_output":
        output = _read_text(item.get("output"), f"{param}.output")
        return [Message("tool", output, tool_call_id=_text(item, "call_id", param))]
    role = _ROLES.get(str(item.get("role")))
    if kind != "message" or role is None:
        raise invalid_param(f"{param} must be a message whose role is one of {', '.join(_ROLES)}.", param)
    content = _read_text(item.get("content"), f"{param}.content", may_have_files=role == "user")
    if role == "tool":
        return [Message("tool", content, tool_call_id=_text(item, "tool_call_id", param))]
    parts = data_parts.read(item.get("content"), f"{param}.content") if role == "user" else ()
    return [Message(role, content, _read_calls(item.get("tool_calls"), f"{param}.tool_calls"), parts=parts)]


def _read_calls(calls: Any, param: str) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list) or not all(
        isinstance(call, Mapping) and isinstance(call.get("function"), Mapping) for call in calls
    ):
        raise invalid_param(f"{param} must be a list of function calls.", param)
    return tuple(_read_call(call["function"], _text(call, "id", param), param) for call in calls)


def _read_call(function: Mapping[str, Any], call_id: str, param: str) -> ToolCall:
    """Return a call. Some models call a tool without arguments by an empty text."""
    arguments = "{}" if function.get("arguments") == "" else _text(function, "arguments", param)
    return ToolCall(call_id, _text(function, "name", param), arguments)


def _text(item: Mapping[str, Any], name: str, param: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise invalid_param(f"{param}.{name} is missing.", f"{param}.{name}")
    return value
