"""The body of errors under /webchat, and the errors of its own."""

from typing import Any

from rest_framework.exceptions import APIException

from sessions_app.identity.principal import Unauthenticated
from sessions_app.surfaces.base.http_errors import HttpError


class TokenRefused(Unauthenticated):
    """The token is missing, invalid or expired. Open a session for a new one."""

    code = "token_refused"


class UserHashRefused(Unauthenticated):
    """The hash of the user is missing or wrong. The site makes it with the account's identity secret."""

    code = "user_hash_refused"


class Unprocessable(APIException):
    """The message is readable, but cannot be accepted."""

    status_code = 422
    default_code = "unprocessable"


def error_body(error: HttpError) -> dict[str, Any]:
    return {"error": error.code, "message": error.message, **error.extra}
