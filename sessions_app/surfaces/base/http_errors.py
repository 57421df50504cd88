"""HTTP errors for exceptions: status, stable code and readable message. Each surface has its own body for them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404
from rest_framework.exceptions import APIException, ValidationError

from agents_app.errors import BudgetUsedUp, IdempotencyMismatch, ModelFailed
from audit_app.kernel.database import is_away
from audit_app.kernel.errors import AppError, Conflict, Forbidden, InvalidInput, NotFound, RateLimited, Unavailable
from sessions_app.identity.principal import Unauthenticated
from tools_app.services import ApprovalExpired

logger = logging.getLogger(__name__)

# First match wins, so subclasses stand before their bases.
_STATUS: tuple[tuple[type[AppError], int], ...] = (
    (Unauthenticated, 401),
    (InvalidInput, 400),
    (NotFound, 404),
    (Forbidden, 403),
    (IdempotencyMismatch, 422),
    (ApprovalExpired, 410),
    (Conflict, 409),
    (RateLimited, 429),
    (Unavailable, 503),
    (BudgetUsedUp, 402),
    (ModelFailed, 502),
)
_RETRY_SOON = {"Retry-After": "1"}

# Messages of database errors: SQLite and PostgreSQL if the disk is full, SQLite if it is read-only.
_FULL = ("storage_full", "The disk of this installation is full. An operator must make room; nothing was stored.")
_STORAGE = {
    "disk is full": _FULL,
    "No space left on device": _FULL,
    "readonly database": (
        "storage_read_only",
        "The database file cannot be written. An operator must make it writable; nothing was stored.",
    ),
}


@dataclass(frozen=True)
class HttpError:
    """An error as a client may see it. extra: further JSON data about it."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


_FIXED: tuple[tuple[type[Exception], HttpError], ...] = (
    (Http404, HttpError(404, "not_found", "No resource has this URL.")),
    (PermissionDenied, HttpError(403, "forbidden", "You are not allowed to do this.")),
    (RequestDataTooBig, HttpError(413, "body_too_large", "The request body is too large.")),
    (SuspiciousOperation, HttpError(400, "bad_request", "The request is malformed.")),
    (UnicodeDecodeError, HttpError(400, "bad_request", "The request is malformed.")),
)


def http_error_of(error: Exception) -> HttpError:
    """Return the HTTP error for an exception. Never raises.

    An unexpected exception becomes a 500 without details; its traceback is logged.
    """
    if isinstance(error, AppError):
        return _of_app_error(error)
    if isinstance(error, ValidationError):
        return _of_validation(error)
    if isinstance(error, APIException):
        codes = error.get_codes()
        return HttpError(error.status_code, codes if isinstance(codes, str) else error.default_code, str(error.detail))
    if fixed := next((http_error for kind, http_error in _FIXED if isinstance(error, kind)), None):
        return fixed
    if is_away(error):
        return _of_database(error)
    logger.error("unexpected error", exc_info=error)
    return HttpError(500, "internal_error", "An unexpected error occurred. It is logged under the id of this request.")


def _of_app_error(error: AppError) -> HttpError:
    headers: dict[str, str] = {}
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif isinstance(error, Unavailable):
        headers |= _RETRY_SOON
    elif isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="komand"'
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return HttpError(status, error.code, error.message, headers, error.extra)


def _of_database(error: Exception) -> HttpError:
    """Distinguish a full disk from an unreachable server: only for the latter a retry helps."""
    for text, (code, message) in _STORAGE.items():
        if text in str(error):
            logger.error("the database cannot store data: %s", error)
            return HttpError(503, code, message)
    logger.warning("the database is not reachable: %s", error)
    return HttpError(503, "unavailable", "The database is not reachable. Try again.", _RETRY_SOON)


def _of_validation(error: ValidationError) -> HttpError:
    problems = _flat(error.detail)
    message = " ".join(f"{name}: {text}" if name else text for name, text in problems)
    fields: dict[str, list[str]] = {}
    for name, text in problems:
        fields.setdefault(name, []).append(text)
    return HttpError(400, "invalid_input", message, extra={"fields": fields})


def _flat(detail: Any, name: str = "") -> list[tuple[str, str]]:
    """Return pairs of dotted field name and problem, in order. The name is empty for the whole body."""
    if isinstance(detail, Mapping):
        return [
            problem
            for key, value in detail.items()
            for problem in _flat(value, name if key == "non_field_errors" else f"{name}.{key}".lstrip("."))
        ]
    if isinstance(detail, list):
        return [problem for item in detail for problem in _flat(item, name)]
    return [(name, str(detail))]
