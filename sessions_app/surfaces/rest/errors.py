"""The body of errors under /api."""

from typing import Any

from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.rest import envelope


def error_body(error: HttpError) -> dict[str, Any]:
    return envelope.failure(error.message, {"code": error.code, **error.extra})
