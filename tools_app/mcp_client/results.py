"""Converts a server's result of a call to a JSON value for the model. Pure: takes the SDK's result as plain JSON."""

import base64
from collections.abc import Mapping
from typing import Any

from tools_app.types import ToolError
from tools_app.types.pictures import NewPicture, media_type_of

_MAX_ERROR = 2_000
_MOST_CHARACTERS = 16_000_000  # of a picture as base64, so that a bigger one is not decoded


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


def pictures_of(result: Mapping[str, Any]) -> list[NewPicture]:
    """Return the pictures among the content of a `CallToolResult`, whatever their server says of their type."""
    found = (_data_of(part) for part in result.get("content") or [] if _text_of(part) is None)
    pictures = (NewPicture(data) for text in found if (data := _decoded(text)))
    return [picture for picture in pictures if media_type_of(picture.data)]


def _data_of(part: Mapping[str, Any]) -> Any:
    resource = part.get("resource")
    return part.get("data") or (resource.get("blob") if isinstance(resource, dict) else None)


def _decoded(text: Any) -> bytes:
    """Return the bytes of base64; nothing for another text, or one that is too long."""
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        return b""
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def _text_of(part: Mapping[str, Any]) -> str | None:
    if part.get("type") == "text":
        return str(part.get("text", ""))
    resource = part.get("resource")
    if part.get("type") == "resource" and isinstance(resource, dict) and "text" in resource:
        return f"{resource.get('uri', '')}\n{resource['text']}"
    return None


def _description_of(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return type and size of a content part, without the bytes, which are no text."""
    resource = part.get("resource") if isinstance(part.get("resource"), dict) else {}
    data = _data_of(part) or ""
    described = {
        "type": part.get("type"),
        "mime_type": part.get("mimeType") or (resource or {}).get("mimeType"),
        "uri": part.get("uri") or (resource or {}).get("uri"),
        "name": part.get("name"),
        "bytes": len(data) * 3 // 4 if data else None,
    }
    return {key: value for key, value in described.items() if value is not None}
