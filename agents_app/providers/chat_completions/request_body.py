"""The JSON body of a chat completion."""

import base64
from typing import Any
from urllib.parse import urlsplit

from agents_app.providers.chat_completions.reasoning_state import ECHOED_FIELDS, echoed, extras_of, sign_foreign_calls
from agents_app.providers.errors import Endpoint
from agents_app.providers.schema_text import schema_text
from agents_app.providers.text_repair import sendable
from agents_app.types import LoadedPart, Message, ModelRequest, RunOptions
from tools_app.types import ToolCall, ToolSpec

_OPENAI = "api.openai.com"
SCHEMA = "response_format"
# The first is left out if the server does not state what it refuses.
_OPTIONAL = ("stream_options", SCHEMA, "parallel_tool_calls", "max_completion_tokens", "max_tokens")
NOTHING: frozenset[str] = frozenset()
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def encode_request(request: ModelRequest, endpoint: Endpoint, refused: frozenset[str] = NOTHING) -> dict[str, Any]:
    """Return the body of a request.

    refused: names that the server does not accept, of `optional_parts`. If SCHEMA is one, the schema of the answer is
        part of the system message.
    """
    messages = [_message(message, endpoint, refused) for message in request.messages]
    if "extra_content" not in refused:
        sign_foreign_calls(messages, endpoint.model)
    schema = request.options.output_schema
    if schema is not None and SCHEMA in refused:
        messages = _with_instruction(messages, schema_text(schema))
    body: dict[str, Any] = {"model": endpoint.model, "messages": messages, "stream": True}
    body |= _tools(request) if request.tools else {}
    body |= _options(request.options, endpoint)
    body["stream_options"] = {"include_usage": True}
    return {name: value for name, value in body.items() if name not in refused} if refused else body


def _tools(request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"tools": [_tool(spec) for spec in request.tools]}
    if not request.may_call_tools:
        body["tool_choice"] = "none"
        return body
    if request.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = request.parallel_tool_calls
    if request.tool_choice:
        named = {"type": "function", "function": {"name": request.tool_choice}}
        body["tool_choice"] = "required" if request.tool_choice == "required" else named
    return body


def optional_parts(body: dict[str, Any]) -> list[str]:
    """Return the names of the parts of a body that a server may refuse and that can be left out."""
    names = [name for name in _OPTIONAL if name in body]
    for message in body["messages"]:
        names += [name for name in ECHOED_FIELDS if name in message]
        names += ["extra_content" for call in message.get("tool_calls", ()) if "extra_content" in call]
    return list(dict.fromkeys(names))


def _with_instruction(messages: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return the messages with the text at the end of the system message, which is the first one."""
    if messages and messages[0]["role"] == "system":
        return [{**messages[0], "content": f"{messages[0]['content']}\n\n{text}"}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _options(options: RunOptions, endpoint: Endpoint) -> dict[str, Any]:
    body: dict[str, Any] = dict(options.sampling or {})
    if options.output_schema is not None:
        schema = {"name": "answer", "schema": options.output_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.max_output_tokens is not None:
        body["max_completion_tokens"] = options.max_output_tokens
        if urlsplit(endpoint.base_url).hostname != _OPENAI:
            body["max_tokens"] = options.max_output_tokens  # the older name, the only one that Ollama reads
    return body


def _message(message: Message, endpoint: Endpoint, refused: frozenset[str]) -> dict[str, Any]:
    encoded: dict[str, Any] = {"role": message.role, "content": sendable(message.content)}
    if parts := [_part(part) for part in message.parts if isinstance(part, LoadedPart)]:
        encoded["content"] = [{"type": "text", "text": encoded["content"]}, *parts]
    if message.tool_calls:
        encoded["content"] = encoded["content"] or None
        encoded["tool_calls"] = [_call(call) for call in message.tool_calls]
        if message.dialect_state:
            encoded |= echoed(message, endpoint, refused)
            for call, extra in zip(encoded["tool_calls"], extras_of(message, endpoint, refused), strict=True):
                call |= {"extra_content": extra} if extra else {}
    if message.role == "tool":
        encoded["tool_call_id"] = message.tool_call_id
    return encoded


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": sendable(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _part(part: LoadedPart) -> dict[str, Any]:
    data = base64.b64encode(part.data).decode()
    if part.kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{part.mime_type};base64,{data}"}}
    if part.kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS[part.mime_type]}}
    file = {"filename": part.name or "file", "file_data": f"data:{part.mime_type};base64,{data}"}
    return {"type": "file", "file": file}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
