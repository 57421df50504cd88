"""Komand as an MCP server at /mcp."""

from typing import Any

from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.surface import Surface


def error_body(error: HttpError) -> dict[str, Any]:
    """Return a JSON-RPC 2.0 error object without an id, as the request's id is not known."""
    body = {"code": -32000, "message": error.message, "data": {"code": error.code}}
    return {"jsonrpc": "2.0", "id": None, "error": body}


SURFACE = Surface(
    name="mcp",
    prefixes=("/mcp",),
    error_body=error_body,
    consumers="sessions_app.surfaces.mcp.consumers",
    openapi="sessions_app.surfaces.mcp.openapi",
)
