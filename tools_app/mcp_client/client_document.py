"""The client metadata document, by which authorization servers of MCP servers know this installation as a client.

Its address is the client id (draft-ietf-oauth-client-id-metadata-document). It is used if others can read it.
"""

from urllib.parse import urlsplit

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_GET

from tools_app.network import ssrf_guard
from tools_app.types import ToolError

PATH = "oauth/mcp-client.json"
_LOOK_UP_SECONDS = 5.0


def callback_url(request: HttpRequest) -> str:
    """Return the address to which authorization servers send the browser back."""
    return _callback_at(settings.KOMAND_PUBLIC_URL or request.build_absolute_uri("/").rstrip("/"))


def _callback_at(origin: str) -> str:
    return f"{origin}{reverse('admin:tools_app_mcpserver_callback')}"


def readable_url() -> str:
    """Return the address of the document; empty unless KOMAND_PUBLIC_URL is https and resolves to public addresses."""
    url = f"{settings.KOMAND_PUBLIC_URL}/{PATH}"
    if urlsplit(url).scheme != "https":
        return ""
    try:
        found = ssrf_guard.check_url(url, allowed_private=())
        ssrf_guard.resolve(found.host, found.port, seconds=_LOOK_UP_SECONDS, allowed_private=())
    except ToolError:
        return ""
    return url


@require_GET
def document(request: HttpRequest) -> HttpResponse:
    """Return the document; 404 unless KOMAND_PUBLIC_URL is https."""
    if not settings.KOMAND_PUBLIC_URL.startswith("https://"):
        raise Http404
    return JsonResponse(
        {
            "client_id": f"{settings.KOMAND_PUBLIC_URL}/{PATH}",
            "client_name": "Komand",
            "client_uri": settings.KOMAND_PUBLIC_URL,
            "redirect_uris": [_callback_at(settings.KOMAND_PUBLIC_URL)],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "web",
        }
    )


urlpatterns: list[URLPattern] = [path(PATH, document, name="mcp-client-document")]
