"""Errors that no view answers: in the envelope under /api, as a page elsewhere."""

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.views import defaults
from rest_framework.exceptions import APIException

from sessions_app.surfaces.failures import failure_of
from sessions_app.surfaces.komand import errors

_API = "/api/"


def _envelope(error: Exception) -> JsonResponse:
    failure = failure_of(error)
    return JsonResponse(errors.shape(failure), status=failure.status, headers=dict(failure.headers))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return _envelope(exception) if request.path.startswith(_API) else defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if request.path.startswith(_API):
        return _envelope(PermissionDenied())
    return defaults.permission_denied(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return _envelope(Http404()) if request.path.startswith(_API) else defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Django has logged the error by now."""
    return _envelope(APIException()) if request.path.startswith(_API) else defaults.server_error(request)
