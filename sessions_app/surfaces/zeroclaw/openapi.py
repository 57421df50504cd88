"""This surface in the OpenAPI document. docs/zeroclaw.md describes the frames of the chat."""

from sessions_app.surfaces.base.openapi.fields import components_of
from sessions_app.surfaces.base.openapi.operations import Description
from sessions_app.surfaces.base.openapi.schemas import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    TEXT,
    UUID,
    Schema,
    just,
    map_of,
    nullable,
    record,
)
from sessions_app.surfaces.zeroclaw import responses

_NAMED = {"session_id": UUID, "run_id": UUID}
WEBHOOK_ANSWER: Schema = {
    "anyOf": [
        record({"response": TEXT, "model": TEXT, **_NAMED}),
        record({"status": just("duplicate"), "idempotent": BOOLEAN, "message": TEXT, **_NAMED}),
    ]
}
HEALTH = record({"status": just("ok"), "paired": BOOLEAN, "require_pairing": BOOLEAN, "runtime": nullable(ANYTHING)})
_SNAPSHOT = record({"pid": COUNT, "updated_at": TEXT, "uptime_seconds": COUNT, "components": map_of(ANYTHING)})
RUNTIME = record({"health": _SNAPSHOT})
STATUS = record(
    {
        "version": TEXT,
        "model": TEXT,
        "uptime_seconds": COUNT,
        "daemon_started_at": TEXT,
        "gateway_port": COUNT,
        "locale": TEXT,
        "memory_backend": TEXT,
        "paired": BOOLEAN,
        "channels": map_of(BOOLEAN),
        "health": _SNAPSHOT,
        "agent_alias": TEXT,
        "check_updates": BOOLEAN,
        "allow_self_upgrade": BOOLEAN,
    }
)
COMPONENTS: dict[str, Schema] = {
    "GatewayError": record({"error": TEXT, "code": TEXT}, open_ended=True),
    **components_of(responses),
}
_ABOUT = "The calls of clients of ZeroClaw's gateway: see docs/zeroclaw.md."
DESCRIPTION = Description("ZeroClaw", _ABOUT, "GatewayError", COMPONENTS)
