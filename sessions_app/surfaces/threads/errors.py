"""Errors of this protocol, for views and consumers: a detail, a code of a closed set, the request id."""

from http import HTTPStatus
from typing import Any, TypeVar

from rest_framework.exceptions import APIException, ValidationError
from rest_framework.serializers import Serializer

from audit_app.kernel import context
from sessions_app.surfaces.base.http_errors import HttpError, http_error_of

S = TypeVar("S", bound=Serializer[Any])

_CODES = {status: HTTPStatus(status).name.lower() for status in (400, 401, 403, 404, 409, 415, 429, 501)}
_CODES |= {413: "payload_too_large", 422: "unprocessable_entity", 500: "internal_error"}
_CODES |= dict.fromkeys((502, 503, 504), "service_unavailable")
_SHARED_CODES = frozenset({"run_busy"})  # our codes that the protocol has too


class Unprocessable(APIException):
    """The request is well formed but not valid."""

    status_code = 422
    default_code = "unprocessable_entity"


class Unanswered(APIException):
    """The agent gave no usable answer."""

    status_code = 502
    default_code = "service_unavailable"


class TookTooLong(APIException):
    status_code = 504
    default_code = "service_unavailable"
    default_detail = "The answer took too long; its run was stopped."


def error_body(error: HttpError) -> dict[str, Any]:
    code = error.code if error.code in _SHARED_CODES else _CODES.get(error.status, "error")
    return {"detail": error.message, "code": code, "request_id": context.request_id.get() or None}


def checked(serializer: S) -> S:
    """Return the serializer after validation. Raises Unprocessable with the problem of each field."""
    try:
        serializer.is_valid(raise_exception=True)
    except ValidationError as error:
        raise Unprocessable(http_error_of(error).message) from None
    return serializer
