"""The hub's operations over HTTP for the OpenAPI document. docs/signalr.md describes the messages."""

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
_NEGOTIATE = Operation(
    "Negotiate a connection",
    ref("HubNegotiation"),
    access="query",
    parameters=[
        Parameter(
            "negotiateVersion", "With 1, the connection token differs from the connection id.", one_of(["0", "1"])
        )
    ],
)
_GET_HUB = Operation(
    "Stream or poll messages of the hub",
    access="query",
    streams=True,
    parameters=[_ID],
    errors=[403, 404, 409],
    answers={
        200: Answer(f"Messages; as {EVENTS} if the client accepts it.", TEXT, _TEXT_TYPE),
        204: Answer("The connection is closed."),
    },
)
_POST_HUB = Operation(
    "Send messages to the hub",
    access="query",
    streams=True,
    parameters=[_ID],
    errors=[404, 409, 413],
    answers={200: Answer("Accepted.", media_type=_TEXT_TYPE)},
)
_DELETE_HUB = Operation(
    "Close a connection",
    access="query",
    streams=True,
    parameters=[_ID],
    errors=[404, 409],
    answers={202: Answer("Closing.", media_type=_TEXT_TYPE)},
    status=202,
)
DESCRIPTION = Description(
    "Hub",
    _ABOUT,
    "HubError",
    COMPONENTS,
    {
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
