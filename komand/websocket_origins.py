"""Origin check of WebSockets: a browser sends cookies with the WebSocket of any page (RFC 6455, section 10.2)."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host

App = Callable[[Any, Any, Any], Awaitable[None]]
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def is_allowed(headers: Mapping[bytes, bytes], hosts: list[str], origins: Collection[str]) -> bool:
    """Return whether a page may open a WebSocket.

    headers: names in lower case.
    hosts: host names served here.
    origins: other allowed origins, as `https://host[:port]`.

    A page must have the host and port that it calls, or be listed. A request without Origin comes from a program; it is
    allowed if it has no cookie, because then only a token authenticates it.
    """
    origin, host = headers.get(b"origin", b"").decode("latin1"), headers.get(b"host", b"").decode("latin1")
    if not origin:
        return b"cookie" not in headers
    try:
        page, target = urlsplit(origin), urlsplit(f"//{host}")
        page_port, target_port = page.port or _DEFAULT_PORTS.get(page.scheme), target.port
    except ValueError:
        return False
    if origin in origins:
        return True
    same_port = page_port == target_port if target_port else page_port in (80, 443)
    return (
        bool(page.hostname)
        and page.hostname == target.hostname
        and same_port
        and validate_host(page.hostname or "", hosts)
    )


class OriginCheck:
    """ASGI middleware that refuses (403) WebSockets that `is_allowed` does not allow."""

    def __init__(self, inner: App) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        origins = [*settings.KOMAND_CORS_ORIGINS, settings.KOMAND_PUBLIC_URL]
        if is_allowed(dict(scope["headers"]), settings.ALLOWED_HOSTS, origins):
            await self._inner(scope, receive, send)
        else:
            await WebsocketDenier()(scope, receive, send)
