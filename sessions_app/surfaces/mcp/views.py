"""The metadata of `/mcp` as a protected resource of OAuth 2.0 (RFC 9728), which clients read after a 401."""

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.surfaces.base.addresses import origin_for
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT, list_of, record
from sessions_app.surfaces.base.views import PlainView

_METADATA = record(
    {
        "resource": TEXT,
        "resource_name": TEXT,
        "bearer_methods_supported": list_of(TEXT),
        "scopes_supported": list_of(TEXT),
    }
)


class ResourceMetadata(PlainView):
    """No authorization server is named: the tokens are API keys of this installation."""

    is_public = True

    @Operation("Read the OAuth metadata of the MCP server", _METADATA, access="open")
    def get(self, request: Request) -> Response:
        return Response(
            {
                "resource": f"{origin_for(request._request)}/mcp",
                "resource_name": "Komand",
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["mcp", "mcp:read"],
            }
        )
