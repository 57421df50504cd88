"""The routes that belong to no surface: health, and the webhooks of channels."""

from sessions_app.surfaces.base.openapi.operations import Answer, Description, Operation
from sessions_app.surfaces.base.openapi.schemas import (
    NULL,
    OBJECT,
    TEXT,
    Schema,
    just,
    map_of,
    nullable,
    one_of,
    record,
    ref,
)

_COMPONENTS: dict[str, Schema] = {
    "Health": record(
        {
            "success": just(True),
            "data": record(
                {"status": one_of(["ok", "degraded"]), "checks": map_of(one_of(["ok", "unreachable"]))},
                optional=["checks"],
            ),
            "error": NULL,
            "meta": NULL,
        }
    ),
    "NotReady": record({"success": just(False), "data": OBJECT, "error": TEXT, "meta": NULL}),
    "WebhookRefusal": record({"error": TEXT, "message": TEXT}, open_ended=True),
}
HEALTH = Description(
    "Health",
    "For people, and for whoever runs it. Never counted against a limit.",
    "NotReady",
    _COMPONENTS,
    {
        "/health": {"get": Operation("See whether it works", ref("Health"), access="open")},
        "/health/live": {"get": Operation("See whether this process answers", ref("Health"), access="open")},
        "/health/ready": {
            "get": Operation(
                "See whether it can take work",
                ref("Health"),
                access="open",
                answers={503: Answer("Database or Valkey is away.", ref("NotReady"))},
            )
        },
    },
)
WEBHOOKS = Description(
    "Channels",
    "Where platforms deliver messages. Each proves itself as its channel says; see docs/channels.md.",
    "WebhookRefusal",
    {},
    {
        "/channels/{channel}/{account_id}/webhook": {
            "post": Operation(
                "Deliver messages of a channel",
                nullable(OBJECT),
                body={},
                media_type="*/*",
                access="open",
                waits=True,
                errors=[401, 405, 408, 422],
                description="What a platform sends, and what it is answered, is its own.",
            )
        }
    },
)
DESCRIPTIONS = (HEALTH, WEBHOOKS)
