"""Django's error handlers: the error body of the surface that owns the path, an HTML page elsewhere."""

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.views import defaults
from rest_framework.exceptions import APIException

from audit_app import services as audit
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.surface import surface_at


def _shaped(request: HttpRequest, error: Exception) -> JsonResponse | None:
    surface = surface_at(request.path)
    if surface is None or surface.error_body is None:
        return None
    found = http_error_of(error)
    return JsonResponse(surface.error_body(found), status=found.status, headers=dict(surface.error_headers(found)))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return _shaped(request, exception) or defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Return the 403 response. A refusal of a page, which only the admin makes so, is audited."""
    if shaped := _shaped(request, PermissionDenied()):
        return shaped
    actor = f"user:{request.user.pk}" if request.user.is_authenticated else ""
    audit.record("PageRefused", actor=actor, details={"page": request.path, "method": request.method})
    return defaults.permission_denied(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return _shaped(request, Http404()) or defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Return the 500 response. Django has logged the error already."""
    return _shaped(request, APIException()) or defaults.server_error(request)
