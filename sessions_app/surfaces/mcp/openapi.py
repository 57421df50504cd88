"""The operation of this surface for the OpenAPI document. MCP describes the messages."""

from sessions_app.surfaces.base.openapi.operations import Answer, Description, Operation
from sessions_app.surfaces.base.openapi.schemas import INTEGER, NULL, OBJECT, TEXT, Schema, just, nullable, record

_ABOUT = "Agents and sessions as tools of the Model Context Protocol. See docs/mcp.md."
_ID: Schema = {"type": ["string", "integer", "null"]}
REQUEST: Schema = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {"jsonrpc": just("2.0"), "id": _ID, "method": TEXT, "params": OBJECT},
}
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
DESCRIPTION = Description(
    "MCP",
    _ABOUT,
    "McpError",
    COMPONENTS,
    operations={
        "POST /mcp": Operation(
            "Send a JSON-RPC message",
            {"$ref": "#/components/schemas/McpResult"},
            body=REQUEST,
            access="bearer",
            errors=[404, 406],
            streams=True,
            answers={
                202: Answer("Accepted; a notification has no result."),
                406: Answer("`Accept` must include application/json."),
            },
            description="Streamable HTTP without sessions; answers are JSON. Tools that call an agent wait for it.",
        )
    },
)
