"""Cross-origin resource sharing (Fetch standard, "CORS protocol"). Cookies are never allowed across origins."""

from collections.abc import Collection
from itertools import chain

from sessions_app.surfaces.base.surface import surfaces

_ALLOWED_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "Last-Event-ID",
    "Prefer",
    "X-Komand-Stop-On-Disconnect",
    "X-Request-Id",
)
_EXPOSED_HEADERS = "Retry-After, X-RateLimit-Reason, X-RateLimit-Retry-Ms, X-Request-Id"


def cors_headers(origin: str, allowed: Collection[str], *, preflight: bool) -> dict[str, str]:
    """Return the CORS headers of the answer to a request of this Origin.

    allowed: origins spelled as browsers do (`https://app.example.com`), or `*` for every one.
    """
    if not origin or not (origin in allowed or "*" in allowed):
        return {"Vary": "Origin"} if allowed else {}
    headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
    if preflight:
        return headers | {
            "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
            "Access-Control-Allow-Headers": ", ".join(
                chain(_ALLOWED_HEADERS, *(surface.cors_headers for surface in surfaces))
            ),
            "Access-Control-Max-Age": "600",
        }
    return headers | {"Access-Control-Expose-Headers": _EXPOSED_HEADERS}
