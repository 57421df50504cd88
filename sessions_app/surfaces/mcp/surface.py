"""Komand as an MCP server at /mcp."""

from typing import Any

from django.conf import settings

from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.surface import Surface

METADATA_PATH = "/.well-known/oauth-protected-resource"


def error_body(error: HttpError) -> dict[str, Any]:
    """Return a JSON-RPC 2.0 error object without an id, as the request's id is not known."""
    body = {"code": -32000, "message": error.message, "data": {"code": error.code}}
    return {"jsonrpc": "2.0", "id": None, "error": body}


def error_headers(error: HttpError) -> dict[str, str]:
    """Return the headers of an error. That of a missing credential names the metadata, if our address is known."""
    headers = dict(error.headers)
    if "WWW-Authenticate" in headers and settings.KOMAND_PUBLIC_URL:
        headers["WWW-Authenticate"] += f', resource_metadata="{settings.KOMAND_PUBLIC_URL}{METADATA_PATH}/mcp"'
    return headers


SURFACE = Surface(
    name="mcp",
    title="MCP",
    prefixes=("/mcp", METADATA_PATH),
    error_body=error_body,
    error_headers=error_headers,
    urlconf="sessions_app.surfaces.mcp.urls",
    consumers="sessions_app.surfaces.mcp.consumers",
    openapi="sessions_app.surfaces.mcp.openapi",
)
