"""The JSON body of a request."""

from typing import Any

from agents_app.providers.errors import Endpoint
from agents_app.providers.responses.input_items import REASONING, encode_items, instructions_of
from agents_app.providers.schema_text import schema_text
from agents_app.types import ModelRequest
from tools_app.types import ToolSpec

SCHEMA = "text"
# The first is left out if the server does not state what it refuses.
_OPTIONAL = ("reasoning", "include", "store", "parallel_tool_calls", SCHEMA)


def encode_request(request: ModelRequest, endpoint: Endpoint, refused: frozenset[str]) -> dict[str, Any]:
    """Return the body of a request. The server keeps nothing of it: reasoning comes back encrypted.

    refused: names that the server does not accept, of `optional_parts`. If SCHEMA is one, the schema of the answer is
        part of the instructions.
    """
    options, instructions = request.options, instructions_of(request.messages)
    body: dict[str, Any] = {
        "model": endpoint.model,
        "input": encode_items(request.messages, endpoint, refused),
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
    }
    if options.output_schema is not None:
        schema = {"type": "json_schema", "name": "answer", "schema": options.output_schema, "strict": False}
        body[SCHEMA] = {"format": schema}
        if SCHEMA in refused:
            instructions = f"{instructions}\n\n{schema_text(options.output_schema)}".strip()
    if instructions:
        body["instructions"] = instructions
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        body |= _tool_choice(request)
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.sampling and "top_p" in options.sampling:
        body["top_p"] = options.sampling["top_p"]  # the only one that this protocol has
    if options.max_output_tokens is not None:
        body["max_output_tokens"] = options.max_output_tokens
    return {name: value for name, value in body.items() if name not in refused}


def _tool_choice(request: ModelRequest) -> dict[str, Any]:
    if not request.may_call_tools:
        return {"tool_choice": "none"}
    fields: dict[str, Any] = {}
    if request.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = request.parallel_tool_calls
    if request.tool_choice:
        named = {"type": "function", "name": request.tool_choice}
        fields["tool_choice"] = "required" if request.tool_choice == "required" else named
    return fields


def optional_parts(body: dict[str, Any]) -> list[str]:
    """Return the names of the parts of a body that a server may refuse and that can be left out."""
    names = [name for name in _OPTIONAL if name in body]
    return [*names, REASONING] if any(item.get("type") == "reasoning" for item in body["input"]) else names


def _tool(spec: ToolSpec) -> dict[str, Any]:
    fields = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", **fields, "strict": False}
