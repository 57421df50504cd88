"""Converts a server's result of a call to a JSON value for the model. Pure: takes the SDK's result as plain JSON."""

from collections.abc import Mapping
from typing import Any

from tools_app.types import ToolError

_MAX_ERROR = 2_000


def value_of(result: Mapping[str, Any]) -> Any:
    """Return the JSON value of a `CallToolResult`: structured content, else text; other content is described.

    Raises ToolError with the server's text if the result is an error.
    """
    parts = [(part, _text_of(part)) for part in result.get("content") or []]
    attachments = [_description_of(part) for part, text in parts if text is None]
    text = "\n\n".join(text for _, text in parts if text is not None)
    if result.get("isError"):
        raise ToolError(text[:_MAX_ERROR] or "The tool failed without an error message.")
    structured = result.get("structuredContent")
    value = text if structured is None else structured
    if not attachments:
        return value
    described: dict[str, Any] = {"attachments": attachments}
    return {"result" if structured is not None else "text": value, **described} if value else described


def _text_of(part: Mapping[str, Any]) -> str | None:
    if part.get("type") == "text":
        return str(part.get("text", ""))
    resource = part.get("resource")
    if part.get("type") == "resource" and isinstance(resource, dict) and "text" in resource:
        return f"{resource.get('uri', '')}\n{resource['text']}"
    return None


def _description_of(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return type and size of a content part, without the bytes, which a model cannot use."""
    resource = part.get("resource") if isinstance(part.get("resource"), dict) else {}
    data = part.get("data") or (resource or {}).get("blob") or ""
    described = {
        "type": part.get("type"),
        "mime_type": part.get("mimeType") or (resource or {}).get("mimeType"),
        "uri": part.get("uri") or (resource or {}).get("uri"),
        "name": part.get("name"),
        "bytes": len(data) * 3 // 4 if data else None,
    }
    return {key: value for key, value in described.items() if value is not None}
