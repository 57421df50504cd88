"""The hub over HTTP in the OpenAPI document. docs/signalr.md describes the messages."""

from sessions_app.surfaces.base.openapi.operations import Description
from sessions_app.surfaces.base.openapi.schemas import INTEGER, TEXT, Schema, list_of, record

_ABOUT = "The SignalR hub over HTTP. Clients use a SignalR library; see docs/signalr.md."
COMPONENTS: dict[str, Schema] = {
    "HubError": record({"error": TEXT}),
    "HubNegotiation": record(
        {
            "negotiateVersion": INTEGER,
            "connectionId": TEXT,
            "connectionToken": TEXT,
            "accessToken": TEXT,
            "availableTransports": list_of(record({"transport": TEXT, "transferFormats": list_of(TEXT)})),
        },
        optional=["accessToken"],
    ),
}
DESCRIPTION = Description("Hub", _ABOUT, "HubError", COMPONENTS, access="query")
