"""The routes that belong to no surface: health, and the webhooks of channels."""

from sessions_app.surfaces.base.openapi.operations import Answer, Description, Operation
from sessions_app.surfaces.base.openapi.schemas import NULL, OBJECT, TEXT, just, map_of, nullable, one_of, record, ref

_COMPONENTS = {
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
    "Health checks. They are not rate limited.",
    "NotReady",
    _COMPONENTS,
    operations={
        "GET /health": Operation("Check the health", ref("Health"), access="open"),
        "GET /health/live": Operation("Check the health of this process", ref("Health"), access="open"),
        "GET /health/ready": Operation(
            "Check whether it accepts work",
            ref("Health"),
            access="open",
            answers={503: Answer("The database or Valkey is not reachable.", ref("NotReady"))},
        ),
    },
)
WEBHOOKS = Description(
    "Channels",
    "Webhooks of messaging platforms. Each channel verifies requests in its own way; see docs/channels.md.",
    "WebhookRefusal",
    {},
    operations={
        "POST /channels/{channel}/{account_id}/webhook": Operation(
            "Deliver messages of a channel",
            nullable(OBJECT),
            body={},
            media_type="*/*",
            access="open",
            streams=True,
            errors=[401, 405, 408, 422],
            description="The format of the request and of the answer is the platform's.",
        ),
        "GET /channels/files/{token}": Operation(
            "Download a file, or read an answer, by the link that a chat shows",
            access="open",
            answers={
                200: Answer("The content of the file, as an attachment; the answer, as plain text.", media_type="*/*"),
                403: Answer("The link is invalid or has expired.", TEXT, media_type="text/plain"),
            },
        ),
    },
)
DESCRIPTIONS = (HEALTH, WEBHOOKS)
