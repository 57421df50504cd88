"""This surface in the OpenAPI document: the hub's addresses over HTTP. What is said through them: docs/signalr.md."""

from django.conf import settings

from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Description, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import INTEGER, TEXT, Schema, list_of, one_of, record, ref

_ABOUT = "The hub's addresses. Clients come by a library of the protocol; see docs/signalr.md."
_ID = Parameter("id", "The connection's token, of the negotiation.", TEXT, required=True)
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
    parameters=[Parameter("negotiateVersion", "1 keeps the connection's token apart from its id.", one_of(["0", "1"]))],
)
_HUB = {
    "get": Operation(
        "Stream or poll the hub's records",
        access="query",
        waits=True,
        parameters=[_ID],
        errors=[403, 404, 409],
        answers={
            200: Answer(f"Records; as {EVENTS} for a client that accepts those.", TEXT, _TEXT_TYPE),
            204: Answer("The connection is closed."),
        },
    ),
    "post": Operation(
        "Send records to the hub",
        access="query",
        waits=True,
        parameters=[_ID],
        errors=[404, 409, 413],
        answers={200: Answer("Taken.", media_type=_TEXT_TYPE)},
    ),
    "delete": Operation(
        "Close a connection",
        access="query",
        waits=True,
        parameters=[_ID],
        errors=[404, 409],
        answers={202: Answer("Closing.", media_type=_TEXT_TYPE)},
        status=202,
    ),
}
DESCRIPTION = Description(
    "Hub",
    _ABOUT,
    "HubError",
    COMPONENTS,
    {
        path: methods
        for hub in settings.KOMAND_HUB_PATHS
        for path, methods in ((f"/{hub}/negotiate", {"post": _NEGOTIATE}), (f"/{hub}", _HUB))
    },
)
