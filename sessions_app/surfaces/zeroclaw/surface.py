"""The interface of ZeroClaw's gateway, below /zeroclaw."""

from typing import Any

from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.surface import Surface


def error_body(error: HttpError) -> dict[str, Any]:
    """Return the body of an error. Clients read the text of `error`."""
    return {"error": error.message, "code": error.code, **error.extra}


SURFACE = Surface(
    name="zeroclaw",
    title="ZeroClaw",
    prefixes=("/zeroclaw/",),
    error_body=error_body,
    urlconf="sessions_app.surfaces.zeroclaw.urls",
    consumers="sessions_app.surfaces.zeroclaw.consumers",
    openapi="sessions_app.surfaces.zeroclaw.openapi",
    cors_headers=("X-Idempotency-Key", "X-Session-Id", "X-Pairing-Code", "X-Webhook-Secret"),
)
