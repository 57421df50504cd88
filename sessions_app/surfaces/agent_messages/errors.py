"""The error shape of this surface, for views and consumers: clients show `message` and `details`."""

from typing import Any

from rest_framework.exceptions import APIException

from sessions_app.surfaces.base.http_errors import HttpError

_PACED_SECONDS = 3  # longest delay after which clients retry by themselves


class NotOffered(APIException):
    """A part of the protocol that this server does not implement."""

    status_code = 501
    default_code = "not_implemented"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not part of this server.")


def error_body(error: HttpError) -> dict[str, Any]:
    body: dict[str, Any] = {"message": error.message, "code": error.code, "status": error.status}
    return {**body, "details": dict(error.extra)} if error.extra else body


def error_headers(error: HttpError) -> dict[str, str]:
    """Return the error's headers; a 429 also carries the pacing headers that clients read before they give up."""
    headers = dict(error.headers)
    seconds = headers.get("Retry-After", "")
    if error.status == 429 and seconds.isdecimal():
        headers["X-RateLimit-Reason"] = "pacing" if int(seconds) <= _PACED_SECONDS else "quota"
        headers["X-RateLimit-Retry-Ms"] = str(int(seconds) * 1000)
    return headers
