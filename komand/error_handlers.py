"""Errors that no view answers: in the shape of the surface that owns the prefix, as a page elsewhere."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.views import defaults
from rest_framework.exceptions import APIException

from sessions_app.surfaces.agent_messages import errors as agents
from sessions_app.surfaces.base.http_errors import HttpError, http_error_of
from sessions_app.surfaces.openai import errors as openai
from sessions_app.surfaces.rest import errors as komand
from sessions_app.surfaces.threads import errors as threads

Shape = Callable[[HttpError], dict[str, Any]]

# The first prefix that fits.
_SHAPES: tuple[tuple[str, Shape], ...] = (
    ("/api/v1/", agents.shape),
    ("/token/", agents.shape),
    ("/api/", komand.shape),
    ("/v1/chat", openai.shape),
    ("/v1/responses", openai.shape),
    ("/v1/models", openai.shape),
    ("/v1/", threads.shape),
)


def shape_of(path: str) -> Shape | None:
    """How errors at this path look; None where people read them."""
    return next((shape for prefix, shape in _SHAPES if path.startswith(prefix)), None)


def _shaped(request: HttpRequest, error: Exception) -> JsonResponse | None:
    shape = shape_of(request.path)
    if shape is None:
        return None
    failure = http_error_of(error)
    return JsonResponse(shape(failure), status=failure.status, headers=dict(failure.headers))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return _shaped(request, exception) or defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return _shaped(request, PermissionDenied()) or defaults.permission_denied(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return _shaped(request, Http404()) or defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Django has logged the error by now."""
    return _shaped(request, APIException()) or defaults.server_error(request)
