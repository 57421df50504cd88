"""Errors of this protocol, for views and consumers: a detail, a code of a closed set, the request id."""

from typing import Any, TypeVar

from rest_framework.exceptions import APIException, ValidationError
from rest_framework.serializers import Serializer

from audit_app.kernel import context
from sessions_app.surfaces.base.http_errors import HttpError, http_error_of

S = TypeVar("S", bound=Serializer[Any])

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    413: "payload_too_large",
    415: "unsupported_media_type",
    422: "unprocessable_entity",
    429: "too_many_requests",
    500: "internal_error",
    501: "not_implemented",
    **dict.fromkeys((502, 503, 504), "service_unavailable"),
}
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
