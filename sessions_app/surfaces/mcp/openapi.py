"""This surface in the OpenAPI document: one route, whose own protocol says the rest."""

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
    {
        "/mcp": {
            "post": Operation(
                "Send one message of the protocol",
                {"$ref": "#/components/schemas/McpResult"},
                body=REQUEST,
                access="bearer",
                errors=[404, 406],
                waits=True,
                answers={202: Answer("Taken; a notification has no answer."), 406: Answer("Accept has to name JSON.")},
                description="Streamable HTTP without sessions: answers are JSON. Tools that ask an agent wait for it.",
            )
        }
    },
)
