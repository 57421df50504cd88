"""Messages of the protocol as ours: what was said before, and what is asked now. Pure.

Tools run on our side, so a client's own tools, and pictures and sounds, are refused in clear words instead of ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agents_app.types import Message
from audit_app.kernel.errors import InvalidInput
from tools_app.types import ToolCall

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_SENT_BACK = ("reasoning", "mcp_call", "mcp_list_tools")  # of our own answers: the text beside them counts
MOST_MESSAGES = 2_000


def refuse(message: str, param: str, code: str = "invalid_value") -> InvalidInput:
    return InvalidInput(message, code=code, param=param)


def read_conversation(items: Any, param: str) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """(what was said before, the user's messages that are to be answered now). Raises InvalidInput.

    items: `messages` of Chat Completions or a list of `input` items of Responses.
    """
    if not isinstance(items, list) or not items:
        raise refuse(f"{param} is a list of at least one message.", param)
    if len(items) > MOST_MESSAGES:
        raise refuse(f"{param} has {len(items):,} messages; at most {MOST_MESSAGES:,} are allowed.", param)
    messages = [message for index, item in enumerate(items) for message in _read(item, f"{param}[{index}]")]
    first = len(messages)
    while first and messages[first - 1].role == "user":
        first -= 1
    if first == len(messages):
        raise refuse("The last message has to be the user's.", param)
    return tuple(messages[:first]), tuple(messages[first:])


def read_text(content: Any, param: str) -> str:
    """The text of a message: a string, or a list of text parts."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list):
        raise refuse(f"{param} is a text or a list of parts.", param)
    return "".join(_read_part(part, f"{param}[{index}]") for index, part in enumerate(content))


def words_of(asked: Sequence[Message]) -> str:
    """What is asked, as one message."""
    return "\n\n".join(message.content for message in asked)


def instructions_of(history: Sequence[Message]) -> tuple[str, tuple[Message, ...]]:
    """(what the client tells the agent to be, the rest of the conversation)."""
    said = [message.content for message in history if message.role == "system"]
    return "\n\n".join(said), tuple(message for message in history if message.role != "system")


def _read_part(part: Any, param: str) -> str:
    if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS:
        text = part.get("text", part.get("refusal"))
        if isinstance(text, str):
            return text
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise refuse(f"Only text can be sent here, not {kind!r}.", param, "unsupported_content")


def _read(item: Any, param: str) -> list[Message]:
    if not isinstance(item, Mapping):
        raise refuse(f"{param} is an object with a role.", param)
    kind = item.get("type", "message")
    if kind in _SENT_BACK:
        return []
    if kind == "function_call":
        call = ToolCall(_text(item, "call_id", param), _text(item, "name", param), _text(item, "arguments", param))
        return [Message("assistant", "", (call,))]
    if kind == "function_call_output":
        output = read_text(item.get("output"), f"{param}.output")
        return [Message("tool", output, tool_call_id=_text(item, "call_id", param))]
    role = _ROLES.get(str(item.get("role")))
    if kind != "message" or role is None:
        raise refuse(f"{param} is no message we know: its role is one of {', '.join(_ROLES)}.", param)
    content = read_text(item.get("content"), f"{param}.content")
    if role == "tool":
        return [Message("tool", content, tool_call_id=_text(item, "tool_call_id", param))]
    return [Message(role, content, _calls(item.get("tool_calls"), param))]


def _calls(calls: Any, param: str) -> tuple[ToolCall, ...]:
    if calls is None:
        return ()
    if not isinstance(calls, list) or not all(
        isinstance(call, Mapping) and isinstance(call.get("function"), Mapping) for call in calls
    ):
        raise refuse(f"{param}.tool_calls is a list of function calls.", f"{param}.tool_calls")
    return tuple(_call(call, f"{param}.tool_calls") for call in calls)


def _call(call: Mapping[str, Any], param: str) -> ToolCall:
    function = call["function"]
    return ToolCall(_text(call, "id", param), _text(function, "name", param), _text(function, "arguments", param))


def _text(item: Mapping[str, Any], name: str, param: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise refuse(f"{param}.{name} is missing.", f"{param}.{name}")
    return value
