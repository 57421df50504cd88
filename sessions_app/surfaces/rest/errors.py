"""The shape of errors under /api, for views and consumers alike."""

from typing import Any

from rest_framework.response import Response

from sessions_app.surfaces.base.http_errors import HttpError, http_error_of
from sessions_app.surfaces.rest import envelope


def shape(failure: HttpError) -> dict[str, Any]:
    return envelope.failure(failure.message, {"code": failure.code, **failure.extra})


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler of this surface: no error escapes the envelope."""
    failure = http_error_of(error)
    return Response(shape(failure), status=failure.status, headers=dict(failure.headers))
