"""The JSON body of a chat completion."""

from typing import Any

from agents_app.types import Message, ModelRequest, RunOptions
from tools_app.types import ToolSpec


def encode_request(request: ModelRequest, *, model: str, asks_for_usage: bool) -> dict[str, Any]:
    """Return the body of a request. asks_for_usage: send `stream_options`, which some servers reject."""
    messages = [_message(message) for message in request.messages]
    body: dict[str, Any] = {"model": model, "messages": messages, "stream": True}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        if not request.may_call_tools:
            body["tool_choice"] = "none"
    body |= _options(request.options)
    if asks_for_usage:
        body["stream_options"] = {"include_usage": True}
    return body


def _options(options: RunOptions) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if options.output_schema is not None:
        schema = {"name": "answer", "schema": options.output_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.max_output_tokens is not None:
        body["max_completion_tokens"] = options.max_output_tokens
    return body


def _message(message: Message) -> dict[str, Any]:
    encoded: dict[str, Any] = {"role": message.role, "content": _sendable(message.content)}
    if message.tool_calls:
        encoded["content"] = encoded["content"] or None
        encoded["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _sendable(call.arguments)}}
            for call in message.tool_calls
        ]
    if message.role == "tool":
        encoded["tool_call_id"] = message.tool_call_id
    return encoded


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _sendable(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
