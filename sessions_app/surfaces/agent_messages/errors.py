"""The shape of errors of this surface, for views and consumers alike: clients show `message`, and `details` with it."""

from typing import Any

from rest_framework.exceptions import APIException

from sessions_app.surfaces.base.http_errors import HttpError

_PACED_SECONDS = 3  # what clients wait out by themselves


class NotHere(APIException):
    """A part of the protocol that is understood, and not offered here."""

    status_code = 501
    default_code = "not_implemented"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not part of this server.")


def error_body(error: HttpError) -> dict[str, Any]:
    shown: dict[str, Any] = {"message": error.message, "code": error.code, "status": error.status}
    if error.extra:
        shown["details"] = dict(error.extra)
    return shown


def error_headers(error: HttpError) -> dict[str, str]:
    """With the pace, which clients look for before they give up at a 429."""
    headers = dict(error.headers)
    seconds = headers.get("Retry-After", "")
    if error.status == 429 and seconds.isdecimal():
        headers["X-RateLimit-Reason"] = "pacing" if int(seconds) <= _PACED_SECONDS else "quota"
        headers["X-RateLimit-Retry-Ms"] = str(int(seconds) * 1000)
    return headers
