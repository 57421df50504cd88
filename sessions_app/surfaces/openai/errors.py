"""Error objects of the API reference, for views and consumers: message, type, param, code."""

from typing import Any

from agents_app.types import RunStatus, RunView
from sessions_app.surfaces.base.http_errors import HttpError

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {"unknown_agent": "model_not_found", "run_busy": "conversation_locked"}  # as this protocol names them


def error(message: str, kind: str, code: str | None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_body(failure: HttpError) -> dict[str, Any]:
    kind = _TYPES.get(failure.status, "invalid_request_error" if failure.status < 500 else "server_error")
    code = "invalid_api_key" if failure.status == 401 else _CODES.get(failure.code, failure.code)
    return error(failure.message, kind, code, failure.extra.get("param"))


def problem_of(run: RunView) -> dict[str, Any] | None:
    """Return the error body of a run that ended without completing, else None."""
    if run.status is RunStatus.COMPLETED or not run.status.is_terminal:
        return None
    return error(run.error_message or "The run failed.", "server_error", run.error_code or run.status.value)
