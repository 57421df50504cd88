"""The input of a request: the messages of a history as items."""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from agents_app.providers.dialect_state import fields_for
from agents_app.providers.errors import Endpoint
from agents_app.providers.text_repair import sendable
from agents_app.types import LoadedPart, Message
from tools_app.types import ToolCall

DIALECT = "responses"
REASONING = "encrypted_content"  # the name under which a server refuses the reasoning that goes back
_MAX_ID_CHARACTERS = 64


def instructions_of(messages: Iterable[Message]) -> str:
    """Return the text of the system messages."""
    return "\n\n".join(sendable(message.content) for message in messages if message.role == "system")


def encode_items(messages: Iterable[Message], endpoint: Endpoint, refused: frozenset[str]) -> list[dict[str, Any]]:
    """Return the items of all messages but the system's. refused: without reasoning if REASONING is one."""
    return [item for message in messages for item in _items(message, endpoint, refused)]


def _items(message: Message, endpoint: Endpoint, refused: frozenset[str]) -> Iterator[dict[str, Any]]:
    match message.role:
        case "user":
            yield {"role": "user", "content": _content(message)}
        case "assistant":
            yield from _assistant_items(message, endpoint, refused)
        case "tool":
            output = _content(message)
            yield {"type": "function_call_output", "call_id": _call_id(message.tool_call_id), "output": output}


def _content(message: Message) -> str | list[dict[str, Any]]:
    parts = [_part(part) for part in message.parts if isinstance(part, LoadedPart) and part.kind != "audio"]
    text = sendable(message.content)
    return [{"type": "input_text", "text": text}, *parts] if parts else text


def _part(part: LoadedPart) -> dict[str, Any]:
    url = f"data:{part.mime_type};base64,{base64.b64encode(part.data).decode()}"
    if part.kind == "image":
        return {"type": "input_image", "detail": "auto", "image_url": url}
    return {"type": "input_file", "filename": part.name or "file", "file_data": url}


def _assistant_items(message: Message, endpoint: Endpoint, refused: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield the text and the calls, in the order of the response with the reasoning before each, as far as known."""
    state = fields_for(message.dialect_state, DIALECT, endpoint)
    text, calls = sendable(message.content), list(message.tool_calls)
    for item in state.get("items", ()):
        match item["type"]:
            case "reasoning" if REASONING not in refused:
                yield item
            case "message" if text:
                yield {**item, "role": "assistant", "content": text}
                text = ""
            case "function_call" if calls:
                yield _call(calls.pop(0))
    if text:
        yield {"role": "assistant", "content": text}
    for call in calls:
        yield _call(call)


def _call(call: ToolCall) -> dict[str, Any]:
    call_id, arguments = _call_id(call.id), sendable(call.arguments)
    return {"type": "function_call", "call_id": call_id, "name": call.name, "arguments": arguments}


def _call_id(call_id: str) -> str:
    """Return the id, or a digest of one that another dialect has made and that is too long."""
    if len(call_id) <= _MAX_ID_CHARACTERS:
        return call_id
    return f"call_{hashlib.sha256(call_id.encode(errors='replace')).hexdigest()[:32]}"
