"""Routes of Django requests. Consumers are routed before these, in asgi.py."""

from typing import Any

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.urls.resolvers import RoutePattern
from django.views.generic import RedirectView

from komand import dashboard, health, next_steps, security_txt
from komand.openapi import pages
from komand.openapi.views import OpenApi
from sessions_app.surfaces.base.surface import Surface, most_specific_first


class _Prefixes(RoutePattern):
    """The empty start of a surface's routes, which are tried only for paths that begin with one of its prefixes."""

    def __init__(self, surface: Surface) -> None:
        super().__init__("")
        self._prefixes = tuple(prefix.removeprefix("/") for prefix in surface.prefixes)

    def match(self, path: str) -> Any:
        return super().match(path) if path.startswith(self._prefixes or "") else None


def _routes_of(surface: Surface, urlconf: str) -> URLResolver:
    patterns, app_name, namespace = include(urlconf)
    return URLResolver(_Prefixes(surface), patterns, app_name=app_name, namespace=namespace)


urlpatterns: list[URLPattern | URLResolver] = [
    path("health", health.health, name="health"),
    path("health/live", health.live, name="health-live"),
    path("health/ready", health.ready, name="health-ready"),
    path(security_txt.PATH, security_txt.security_txt, name="security-txt"),
    path("next", next_steps.next_steps, name="next-steps"),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/login/", dashboard.login),
    path("admin/", admin.site.urls),
    path("api/schema", OpenApi.as_view(), name="openapi-schema"),
    path("api/docs", pages.reference, name="openapi-docs"),
    path("", include("sessions_app.channels.file_links")),
    path("", include("tools_app.mcp_client.client_document")),
    *(_routes_of(surface, surface.urlconf) for surface in most_specific_first() if surface.urlconf),
]

handler400 = "komand.error_handlers.bad_request"
handler403 = "komand.error_handlers.permission_denied"
handler404 = "komand.error_handlers.not_found"
handler500 = "komand.error_handlers.server_error"
