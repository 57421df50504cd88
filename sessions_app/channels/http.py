"""HTTP to platforms: a client whose faults say what became of the message, and one that reaches public addresses only.

Error texts never hold a URL: for some platforms it contains the token.
"""

import asyncio
import ssl
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, cast

import httpcore2
import httpx2

from sessions_app.channels.base import Fate, SendError
from tools_app.remote import netguard
from tools_app.types import ToolError

_TIMEOUT = httpx2.Timeout(20.0, connect=5.0, pool=5.0)
# Shorter than what servers keep connections open for: a request on one that just closes is a message in doubt.
_LIMITS = httpx2.Limits(max_connections=50, max_keepalive_connections=20, keepalive_expiry=4.0)
_MOST_ANSWER_BYTES = 256 * 1024
_LOOK_UP_SECONDS = 5.0
_ADDRESSES_TRIED = 3

# Answers after which the message was certainly not taken and another try may do.
TRY_AGAIN = frozenset({408, 409, 412, 425, 429, 500, 502, 503, 504})


def open_client() -> httpx2.AsyncClient:
    """For a platform's own API, at an address that the operator chose."""
    return httpx2.AsyncClient(timeout=_TIMEOUT, limits=_LIMITS, trust_env=False, verify=_ssl_context())


def open_guarded_client(reachable: Collection[str]) -> httpx2.AsyncClient:
    """For URLs that somebody else chose: connects to public addresses alone, and to `reachable` `host:port` pairs."""
    return httpx2.AsyncClient(timeout=_TIMEOUT, trust_env=False, transport=_GuardedTransport(reachable))


async def post(client: httpx2.AsyncClient, url: str, **content: Any) -> tuple[httpx2.Response, bytes]:
    """The response and its body, whatever its status. Redirects are not followed. Raises SendError."""
    try:
        request = client.build_request("POST", url, **content)
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _MOST_ANSWER_BYTES:
                    break
            return response, bytes(body[:_MOST_ANSWER_BYTES])
        finally:
            await response.aclose()
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        raise SendError(f"No connection ({type(error).__name__}).", Fate.NOT_SENT) from None
    except netguard.RefusedTargetError as error:
        raise SendError(str(error), Fate.REFUSED) from None
    except ToolError as error:
        raise SendError(str(error), Fate.NOT_SENT) from None
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        raise SendError("The address to send to is not valid.", Fate.REFUSED) from None
    except httpx2.HTTPError as error:
        raise SendError(f"The connection broke before an answer came ({type(error).__name__}).", Fate.UNKNOWN) from None


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """What a `Retry-After` header asks for: seconds, or a moment as HTTP writes it."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    try:
        return max((parsedate_to_datetime(value) - now).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


class _GuardedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, reachable: Collection[str]) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=_ssl_context(), network_backend=_GuardedBackend(reachable), max_connections=50,
            max_keepalive_connections=20, keepalive_expiry=4.0,
        )  # fmt: skip
        self._reachable = reachable

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        target = netguard.check_url(str(request.url), allowed_private=self._reachable)
        try:
            answer = await self._pool.handle_async_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(
                        scheme=target.url.raw_scheme, host=target.url.raw_host, port=target.url.port,
                        target=target.url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=cast(httpx2.AsyncByteStream, request.stream),
                    extensions=request.extensions,
                )
            )  # fmt: skip
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as error:
            raise httpx2.ConnectError(type(error).__name__) from error
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
            raise httpx2.ReadError(type(error).__name__) from error
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions
        )

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
    """Resolves a name once, has every address checked, and connects to one that was."""

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
            netguard.resolve, host, port, seconds=_LOOK_UP_SECONDS, allowed_private=self._reachable
        )
        *others, last = addresses[:_ADDRESSES_TRIED]
        for address in others:
            try:
                return await self._sockets.connect_tcp(address, port, timeout=timeout)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._sockets.connect_tcp(last, port, timeout=timeout)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@cache
def _ssl_context() -> ssl.SSLContext:
    """Made once a process: reading the system's certificates takes tens of milliseconds."""
    return httpx2.create_ssl_context()
