"""The operations of this surface for the OpenAPI document. docs/channels/web.md describes the events."""

from typing import Any

from sessions_app.surfaces.base.openapi.fields import components_of
from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Description, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import BINARY, BOOLEAN, TEXT, UUID, Schema, record, ref
from sessions_app.surfaces.webchat import responses
from sessions_app.surfaces.webchat.requests import OpenBody

_ABOUT = "The web chat for visitors of other sites: see docs/channels/web.md."
_MESSAGE: dict[str, Any] = {
    "type": "object",
    "required": ["clientMessageId"],
    "properties": {
        "clientMessageId": UUID,
        "text": {"type": "string", "maxLength": 8000},
        "attachments": {"type": "array", "items": UUID, "maxItems": 10},
    },
}
_PRESS = {"type": "object", "required": ["actionId"], "properties": {"actionId": TEXT}}
_FORM = {"type": "object", "required": ["file"], "properties": {"file": BINARY}}
_RECEIVED = record(
    {"messageId": UUID, "duplicate": BOOLEAN, "notice": ref("WebChatNotice")}, optional=["duplicate", "notice"]
)
_LAST = Parameter("lastEventId", "The id of the last event, where the header Last-Event-ID cannot be sent.", TEXT)
_TICKET = Parameter("ticket", "A ticket, in place of the header Authorization.", TEXT)
COMPONENTS: dict[str, Schema] = {
    **components_of(responses),
    "WebChatError": record({"error": TEXT, "message": TEXT}, open_ended=True),
}
_ROOT = "/webchat/{account}"
_OPERATIONS = {
    f"POST {_ROOT}/sessions": Operation(
        "Open a conversation", ref("WebChatOpened"), status=201, body=OpenBody, access="open", errors=[401, 403]
    ),
    f"POST {_ROOT}/messages": Operation(
        "Send a message",
        _RECEIVED,
        status=202,
        body=_MESSAGE,
        errors=[422],
        answers={200: Answer("Sent before.", _RECEIVED)},
    ),
    f"POST {_ROOT}/actions": Operation(
        "Press a button",
        record({"notice": ref("WebChatNotice")}, optional=["notice"]),
        status=202,
        body=_PRESS,
        errors=[422],
    ),
    f"POST {_ROOT}/uploads": Operation(
        "Upload a file for a message", ref("WebChatUpload"), status=201, body=_FORM, media_type="multipart/form-data"
    ),
    f"POST {_ROOT}/tickets": Operation("Get a ticket for the events", ref("WebChatTicket"), status=201, errors=[404]),
    f"POST {_ROOT}/typing": Operation("Say that the visitor writes", None, status=204),
    f"GET {_ROOT}/events": Operation(
        "Follow the conversation",
        parameters=[_TICKET, _LAST],
        errors=[403],
        answers={200: Answer("The events, without end.", TEXT, EVENTS)},
        streams=True,
    ),
}
OPERATIONS = {
    name: operation if operation.access == "open" else Operation(**{**vars(operation), "access": "visitor"})
    for name, operation in _OPERATIONS.items()
}
DESCRIPTION = Description("Web chat", _ABOUT, "WebChatError", COMPONENTS, operations=OPERATIONS)
