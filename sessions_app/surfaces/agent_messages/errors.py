"""The shape of errors of this surface, for views and consumers alike: clients show `message`, and `details` with it."""

from typing import Any

from rest_framework.exceptions import APIException
from rest_framework.response import Response

from sessions_app.surfaces.base.http_errors import HttpError, http_error_of

_PACED_SECONDS = 3  # what clients wait out by themselves


class NotHere(APIException):
    """A part of the protocol that is understood, and not offered here."""

    status_code = 501
    default_code = "not_implemented"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not part of this server.")


def shape(failure: HttpError) -> dict[str, Any]:
    shown: dict[str, Any] = {"message": failure.message, "code": failure.code, "status": failure.status}
    if failure.extra:
        shown["details"] = dict(failure.extra)
    return shown


def headers_of(failure: HttpError) -> dict[str, str]:
    """With the pace, which clients look for before they give up at a 429."""
    headers = dict(failure.headers)
    seconds = headers.get("Retry-After", "")
    if failure.status == 429 and seconds.isdecimal():
        headers["X-RateLimit-Reason"] = "pacing" if int(seconds) <= _PACED_SECONDS else "quota"
        headers["X-RateLimit-Retry-Ms"] = str(int(seconds) * 1000)
    return headers


def handle(problem: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler of this surface."""
    failure = http_error_of(problem)
    return Response(shape(failure), status=failure.status, headers=headers_of(failure))
