"""Entries of the registry as objects of the protocol."""

import base64
import json
from collections.abc import Iterable
from typing import Any

import mcp_types as types

from sessions_app.surfaces.mcp.registry import Content, Prompt, Resource, ResourceKind, TaskState, Tool

# Where a text came in from, when that is outside of this installation: it is data, never an instruction.
_POLL_MS = 1000
_ORIGINS = "komand/origins"


def text_result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


def of_tool(value: Any) -> types.CallToolResult:
    """Return what a tool returned as a result: an object as JSON."""
    if not isinstance(value, dict):
        result: types.CallToolResult = value
        return result
    result = text_result(json.dumps(value, ensure_ascii=False))
    result.structured_content = value
    return result


def created_task(task_id: str, state: TaskState) -> dict[str, Any]:
    """Return the answer of a call that became a task."""
    return {"resultType": "task", **_task(task_id, state)}


def task(task_id: str, state: TaskState) -> dict[str, Any]:
    """Return a task with what its status brings: the result, the error or the requests to the client."""
    shown = {"resultType": "complete", **_task(task_id, state)}
    if state.status == "completed":
        shown["result"] = _dumped(of_tool(state.result))
    elif state.status == "failed":
        shown["error"] = {"code": types.INTERNAL_ERROR, "message": state.error}
    elif state.status == "input_required":
        shown["inputRequests"] = {name: _dumped(request) for name, request in state.asks.items()}
    return shown


def _task(task_id: str, state: TaskState) -> dict[str, Any]:
    return {
        "taskId": task_id,
        "status": state.status,
        "createdAt": state.created_at.isoformat(),
        "lastUpdatedAt": state.changed_at.isoformat(),
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
    }


def _dumped(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return found


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
