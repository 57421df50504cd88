"""This surface in the OpenAPI document. docs/agent-messages.md describes messages and signals."""

from sessions_app.surfaces.agent_messages.requests import MODES
from sessions_app.surfaces.agent_messages.wire_schemas import COMPACT_MESSAGE, POSTED_MESSAGE
from sessions_app.surfaces.base.openapi.operations import Description
from sessions_app.surfaces.base.openapi.schemas import (
    BOOLEAN,
    INTEGER,
    OBJECT,
    TEXT,
    TIME,
    Schema,
    list_of,
    one_of,
    record,
)

_ABOUT = "Agent runs, their messages, signals and files: see docs/agent-messages.md."
_TEXTS = list_of(TEXT)
COMPONENTS: dict[str, Schema] = {
    "AgentRunError": record(
        {"message": TEXT, "code": TEXT, "status": INTEGER, "details": OBJECT}, optional=["details"]
    ),
    "AgentRun": record(
        {
            **dict.fromkeys(("id", "interaction", "workflow_id", "first_workflow_run_id"), TEXT),
            "interactive": BOOLEAN,
            "status": one_of(["created", "running", "completed", "failed", "cancelled"]),
            "activity_state": one_of(["working", "idle"]),
            **dict.fromkeys(("started_at", "created_at", "updated_at"), TIME),
        },
        open_ended=True,
    ),
    "AgentRunStart": {
        "type": "object",
        "required": ["interaction"],
        "properties": {
            **dict.fromkeys(("interaction", "title"), TEXT),
            **dict.fromkeys(("data", "config"), OBJECT),
            **dict.fromkeys(("tool_names", "excluded_tools", "tags"), _TEXTS),
            "interactive": BOOLEAN,
            "tool_approval_mode": one_of([*MODES]),
            "visibility": one_of(["private", "project"]),
        },
    },
    "AgentMessage": COMPACT_MESSAGE,
    "AgentMessagePosted": POSTED_MESSAGE,
}


DESCRIPTION = Description("Agent runs", _ABOUT, "AgentRunError", COMPONENTS)
