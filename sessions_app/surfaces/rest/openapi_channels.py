"""The operations on channel accounts, their routes and deliveries for the OpenAPI document."""

from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import NULL
from sessions_app.surfaces.rest.objects import channels
from sessions_app.surfaces.rest.openapi_answers import page_of

_ROUTE = "With an agent or a network that you may use."

CHANNEL_OPERATIONS = {
    "GET /api/channels": page_of("List channel accounts", channels.ChannelAccountOut, errors=[403]),
    "GET /api/channels/{channel_id}": Operation(
        "Read a channel account with its state", channels.ChannelAccountOut, errors=[403]
    ),
    "GET /api/channels/{channel_id}/routes": page_of(
        "List the routes of a channel account", channels.RouteOut, errors=[403, 404]
    ),
    "POST /api/channels/{channel_id}/routes": Operation(
        "Add a route", channels.RouteOut, body=channels.RouteBody, errors=[404, 409], description=_ROUTE
    ),
    "GET /api/channels/{channel_id}/routes/{route_id}": Operation("Read a route", channels.RouteOut, errors=[403]),
    "PUT /api/channels/{channel_id}/routes/{route_id}": Operation(
        "Change a route", channels.RouteOut, body=channels.RouteBody, partial=True, errors=[409], description=_ROUTE
    ),
    "DELETE /api/channels/{channel_id}/routes/{route_id}": Operation("Delete a route", NULL),
    "GET /api/channels/{channel_id}/deliveries": page_of(
        "List deliveries that were given up", channels.DeliveryOut, channels.DeliveryQuery, errors=[403, 404]
    ),
    "POST /api/channels/{channel_id}/deliveries/{delivery_id}/send-again": Operation(
        "Send a delivery again",
        channels.DeliveryOut,
        errors=[409],
        description="What may have arrived would then arrive twice.",
    ),
}
