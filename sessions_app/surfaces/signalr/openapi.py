"""The hub's operations over HTTP for the OpenAPI document. docs/signalr.md describes the messages."""

from typing import Any

from django.conf import settings

from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Description, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import INTEGER, TEXT, Schema, list_of, one_of, record, ref

_ABOUT = "The SignalR hub over HTTP. Clients use a SignalR library; see docs/signalr.md."
_ID = Parameter("id", "The connection token that the negotiation returned.", TEXT, required=True)
_TEXT_TYPE = "text/plain"
COMPONENTS: dict[str, Schema] = {
    "HubError": record({"error": TEXT}),
    "HubNegotiation": record(
        {
            "negotiateVersion": INTEGER,
            "connectionId": TEXT,
            "connectionToken": TEXT,
            "availableTransports": list_of(record({"transport": TEXT, "transferFormats": list_of(TEXT)})),
        }
    ),
}
_VERSION = "With 1, the connection token differs from the connection id."
_NEGOTIATE = Operation(
    "Negotiate a connection",
    ref("HubNegotiation"),
    access="query",
    parameters=[Parameter("negotiateVersion", _VERSION, one_of(["0", "1"]))],
)
_CONNECTED: dict[str, Any] = {"access": "query", "streams": True, "parameters": [_ID]}
_MESSAGES = {
    200: Answer(f"Messages; as {EVENTS} if the client accepts it.", TEXT, _TEXT_TYPE),
    204: Answer("The connection is closed."),
}
_GET_HUB = Operation("Stream or poll messages of the hub", errors=[403, 404, 409], answers=_MESSAGES, **_CONNECTED)
_ACCEPTED = {200: Answer("Accepted.", media_type=_TEXT_TYPE)}
_POST_HUB = Operation("Send messages to the hub", errors=[404, 409, 413], answers=_ACCEPTED, **_CONNECTED)
_CLOSING = {202: Answer("Closing.", media_type=_TEXT_TYPE)}
_DELETE_HUB = Operation("Close a connection", errors=[404, 409], answers=_CLOSING, status=202, **_CONNECTED)
DESCRIPTION = Description(
    "Hub",
    _ABOUT,
    "HubError",
    COMPONENTS,
    operations={
        f"{method} /{hub}{suffix}": operation
        for hub in settings.KOMAND_HUB_PATHS
        for method, suffix, operation in (
            ("POST", "/negotiate", _NEGOTIATE),
            ("GET", "", _GET_HUB),
            ("POST", "", _POST_HUB),
            ("DELETE", "", _DELETE_HUB),
        )
    },
)
