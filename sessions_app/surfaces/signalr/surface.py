"""The SignalR hub, at each path of `KOMAND_HUB_PATHS`."""

from typing import Any

from django.conf import settings

from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.surface import Surface


def error_body(error: HttpError) -> dict[str, Any]:
    """Return the body in which the protocol refuses a negotiation: `{"error": text}`."""
    return {"error": error.message}


SURFACE = Surface(
    name="signalr",
    title="SignalR",
    prefixes=tuple(f"/{hub}" for hub in settings.KOMAND_HUB_PATHS),
    error_body=error_body,
    consumers="sessions_app.surfaces.signalr.consumers",
    openapi="sessions_app.surfaces.signalr.openapi",
    cors_headers=("X-Requested-With", "X-SignalR-User-Agent"),
)
