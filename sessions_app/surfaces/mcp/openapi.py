"""This surface in the OpenAPI document. MCP describes the messages."""

from sessions_app.surfaces.base.openapi.operations import Description
from sessions_app.surfaces.base.openapi.schemas import INTEGER, NULL, OBJECT, TEXT, Schema, just, nullable, record

_ABOUT = "Agents and sessions as tools of the Model Context Protocol. See docs/mcp.md."
_ID: Schema = {"type": ["string", "integer", "null"]}
COMPONENTS: dict[str, Schema] = {
    "McpError": record(
        {
            "jsonrpc": just("2.0"),
            "id": nullable(NULL),
            "error": record({"code": INTEGER, "message": TEXT, "data": OBJECT}, optional=["data"]),
        }
    ),
    "McpResult": {
        "type": "object",
        "required": ["jsonrpc", "id"],
        "properties": {"jsonrpc": just("2.0"), "id": _ID, "result": OBJECT, "error": OBJECT},
    },
}
DESCRIPTION = Description("MCP", _ABOUT, "McpError", COMPONENTS, access="bearer")
