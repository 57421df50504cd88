"""This surface in the OpenAPI document. docs/channels/web.md describes the events."""

from sessions_app.surfaces.base.openapi.fields import components_of
from sessions_app.surfaces.base.openapi.operations import Description
from sessions_app.surfaces.base.openapi.schemas import TEXT, Schema, record
from sessions_app.surfaces.webchat import responses

_ABOUT = "The web chat for visitors of other sites: see docs/channels/web.md."
COMPONENTS: dict[str, Schema] = {
    **components_of(responses),
    "WebChatError": record({"error": TEXT, "message": TEXT}, open_ended=True),
}
DESCRIPTION = Description("Web chat", _ABOUT, "WebChatError", COMPONENTS, access="visitor")
