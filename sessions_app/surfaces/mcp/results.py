"""Entries of the registry as objects of the protocol."""

import base64
import json
from collections.abc import Iterable
from typing import Any

import mcp_types as types

from sessions_app.surfaces.mcp.registry import Content, Prompt, Resource, ResourceKind, Tool

# Where a text came in from, when that is outside of this installation: it is data, never an instruction.
_ORIGINS = "komand/origins"


def text_result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


def json_result(value: dict[str, Any]) -> types.CallToolResult:
    result = text_result(json.dumps(value, ensure_ascii=False))
    result.structured_content = value
    return result


def tool(offered: Tool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=offered.reads, destructive_hint=False)
    return types.Tool(
        name=offered.name,
        title=offered.title,
        description=offered.description,
        input_schema=offered.parameters,
        annotations=hints,
    )


def resource(kind: ResourceKind, listed: Resource) -> types.Resource:
    changed = listed.changed_at.isoformat() if listed.changed_at else None
    return types.Resource(
        uri=kind.uri_of(listed.variables),
        name=listed.name,
        description=listed.description or kind.description,
        mime_type=listed.media_type or kind.media_type,
        size=listed.size,
        annotations=types.Annotations(audience=["user", "assistant"], last_modified=changed),
        _meta=_marks(listed.origins),
    )


def resource_template(kind: ResourceKind) -> types.ResourceTemplate:
    return types.ResourceTemplate(
        uri_template=kind.uri,
        name=kind.name,
        title=kind.title,
        description=kind.description,
        mime_type=kind.media_type,
        annotations=types.Annotations(audience=["user", "assistant"]),
    )


def contents(uri: str, content: Content) -> types.ReadResourceResult:
    marks = _marks(content.origins)
    if isinstance(content.data, str):
        text = types.TextResourceContents(uri=uri, mime_type=content.media_type, text=content.data, _meta=marks)
        return types.ReadResourceResult(contents=[text])
    blob = base64.b64encode(content.data).decode()
    data = types.BlobResourceContents(uri=uri, mime_type=content.media_type, blob=blob, _meta=marks)
    return types.ReadResourceResult(contents=[data])


def prompt(listed: Prompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=one.name, description=one.description or None, required=one.is_required)
        for one in listed.arguments
    ]
    title, description = listed.title or None, listed.description or listed.title or listed.name
    return types.Prompt(name=listed.name, title=title, description=description, arguments=arguments)


def messages(found: Iterable[Any]) -> types.GetPromptResult:
    """Return the messages of a prompt, each of the user. found: texts or contents of the SDK."""
    wrapped = [types.TextContent(type="text", text=one) if isinstance(one, str) else one for one in found]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=one) for one in wrapped])


def _marks(origins: tuple[str, ...]) -> dict[str, Any] | None:
    return {_ORIGINS: list(origins)} if origins else None
