"""This surface in the OpenAPI document. docs/threads.md describes the events of its stream."""

from sessions_app.surfaces.base.openapi.fields import components_of
from sessions_app.surfaces.base.openapi.operations import Description
from sessions_app.surfaces.base.openapi.schemas import COUNT, INTEGER, TEXT, Schema, list_of, nullable, record, ref
from sessions_app.surfaces.threads import responses
from sessions_app.surfaces.threads.message_schemas import DETAILS

_ABOUT = "Threads, messages, their stream, feedback, keys: see docs/threads.md."


def _page(name: str) -> Schema:
    return record({"items": list_of(ref(name)), "total": COUNT, "limit": INTEGER, "offset": COUNT})


COMPONENTS: dict[str, Schema] = {
    "ThreadError": record({"detail": TEXT, "code": TEXT, "request_id": nullable(TEXT)}),
    "ThreadMessageDetails": DETAILS,
    **components_of(responses),
    **{f"{name}Page": _page(name) for name in ("Thread", "ThreadMessage", "ThreadFeedback", "ThreadAuditEvent")},
}


DESCRIPTION = Description("Threads", _ABOUT, "ThreadError", COMPONENTS, access="thread", invalid=[422])
