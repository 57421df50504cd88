"""An HTTP transport for event loops that connects only to addresses that `ssrf_guard` permits. Follows no redirects.

Its errors are httpx2's, with the kind of error as their text: an address or a URL may contain a secret.
"""

import asyncio
import ssl
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any, cast

import httpcore2
import httpx2

from tools_app.network import ssrf_guard

LOOK_UP_SECONDS = 5.0
ADDRESSES_TRIED = 3


class AsyncGuardedTransport(httpx2.AsyncBaseTransport):
    """A guarded transport. reachable: `host:port` pairs that may be reached although they are not public."""

    def __init__(self, reachable: Collection[str]) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context(),
            network_backend=_GuardedBackend(reachable),
            max_connections=50,
            max_keepalive_connections=20,
            keepalive_expiry=4.0,
        )
        self._reachable = reachable

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        target = ssrf_guard.check_url(str(request.url), allowed_private=self._reachable)
        try:
            answer = await self._pool.handle_async_request(to_core(request, target.url))
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as error:
            raise httpx2.ConnectError(type(error).__name__) from error
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
            raise httpx2.ReadError(type(error).__name__) from error
        body = _Body(answer)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> Any:
        try:
            async for piece in self._answer.aiter_stream():
                yield piece
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
            raise httpx2.ReadError(type(error).__name__) from error

    async def aclose(self) -> None:
        await self._answer.aclose()


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves a name once, has every address checked, and connects to one of those."""

    def __init__(self, reachable: Collection[str]) -> None:
        self._sockets = httpcore2.AnyIOBackend()
        self._reachable = reachable

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await asyncio.to_thread(
            ssrf_guard.resolve, host, port, seconds=LOOK_UP_SECONDS, allowed_private=self._reachable
        )
        *others, last = addresses[:ADDRESSES_TRIED]
        for address in others:
            try:
                return await self._sockets.connect_tcp(address, port, timeout=timeout)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._sockets.connect_tcp(last, port, timeout=timeout)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def to_core(request: httpx2.Request, url: httpx2.URL) -> httpcore2.Request:
    """Return the request as httpcore2 sends it, to this URL."""
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=cast(Any, request.stream),
        extensions=request.extensions,
    )


@cache
def ssl_context() -> ssl.SSLContext:
    """Return the shared SSL context: reading the system's certificates takes tens of milliseconds."""
    return httpx2.create_ssl_context()
