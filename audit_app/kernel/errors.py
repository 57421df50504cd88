"""The base classes of errors that callers see: a stable code, a safe message, and whether a retry may succeed."""

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class AppError(Exception):
    """Something went wrong."""

    code = "error"
    retryable = False

    def __init__(self, message: str = "", *, code: str = "", **extra: Any) -> None:
        """message: safe for any client (default: the class docstring).
        extra: JSON values about the case.
        """
        self.message = message or (type(self).__doc__ or "").strip()
        self.code = code or type(self).code
        self.extra: Mapping[str, Any] = extra
        super().__init__(self.message)


class InvalidInput(AppError):
    """The request is not valid."""

    code = "invalid_input"


class NotFound(AppError):
    """There is no such object, or it is not yours."""

    code = "not_found"


def found(item: T | None, message: str = "", *, code: str = "") -> T:
    """Return the item. Raises NotFound, with this message and code, if it is None."""
    if item is None:
        raise NotFound(message, code=code)
    return item


class Forbidden(AppError):
    """You are not allowed to do this."""

    code = "forbidden"


class Conflict(AppError):
    """This cannot be done in the present state."""

    code = "conflict"


class RateLimited(AppError):
    """Too many requests. Wait and try again."""

    code = "rate_limited"
    retryable = True

    def __init__(self, message: str = "", *, retry_after_seconds: int, code: str = "", **extra: Any) -> None:
        super().__init__(message, code=code, **extra)
        self.retry_after_seconds = retry_after_seconds


class Unavailable(AppError):
    """A part of the system is not reachable just now. Try again."""

    code = "unavailable"
    retryable = True
