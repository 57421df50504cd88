"""Bodies, answers and parameters of this surface's operations."""

from typing import Any

from sessions_app.surfaces.base.openapi.operations import Parameter
from sessions_app.surfaces.base.openapi.schemas import BINARY, BOOLEAN, TEXT, UUID, record, ref

MESSAGE: dict[str, Any] = {
    "type": "object",
    "required": ["clientMessageId"],
    "properties": {
        "clientMessageId": UUID,
        "text": {"type": "string", "maxLength": 8000},
        "attachments": {"type": "array", "items": UUID, "maxItems": 10},
        "page": {
            "type": "object",
            "properties": {"address": TEXT, "title": TEXT, "data": {"type": "object", "maxProperties": 20}},
            "additionalProperties": False,
        },
    },
}
PRESS = {"type": "object", "required": ["actionId"], "properties": {"actionId": TEXT}}
FORM = {"type": "object", "required": ["file"], "properties": {"file": BINARY}}
RECEIVED = record(
    {"messageId": UUID, "duplicate": BOOLEAN, "notice": ref("WebChatNotice")}, optional=["duplicate", "notice"]
)
LAST = Parameter("lastEventId", "The id of the last event, where the header Last-Event-ID cannot be sent.", TEXT)
TICKET = Parameter("ticket", "A ticket, in place of the header Authorization.", TEXT)
