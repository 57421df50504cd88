"""HTTP clients for platforms, with errors that state the certainty about a message.

Error texts never contain a URL: for some platforms it contains the token.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from sessions_app.platforms.base import MIB, ChannelAdapter, FetchError, SendCertainty, SendError
from tools_app.network import ssrf_guard
from tools_app.network.async_transport import AsyncGuardedTransport, ssl_context
from tools_app.types import ToolError

_TIMEOUT = httpx2.Timeout(20.0, connect=5.0, pool=5.0)
# Shorter than the keep-alive of servers: a request on a connection that is just being closed has an unknown outcome.
_LIMITS = httpx2.Limits(max_connections=50, max_keepalive_connections=20, keepalive_expiry=4.0)
_MOST_ANSWER_BYTES = 256 * 1024
_BODY_SECONDS = 10.0

_TRY_AGAIN = frozenset({408, 409, 412, 425, 429, 500, 502, 503, 504})
_MOST_REDIRECTS = 3


def open_client() -> httpx2.AsyncClient:
    """Return a client for a platform's own API, at an address that the operator configured."""
    return httpx2.AsyncClient(timeout=_TIMEOUT, limits=_LIMITS, trust_env=False, verify=ssl_context())


def open_guarded_client(reachable: Collection[str]) -> httpx2.AsyncClient:
    """Return a client for untrusted URLs: it connects to public addresses, and to `host:port` pairs in `reachable`."""
    transport = AsyncGuardedTransport(reachable)
    return httpx2.AsyncClient(timeout=_TIMEOUT, trust_env=False, transport=transport, max_redirects=_MOST_REDIRECTS)


class HttpAdapter(ChannelAdapter):
    """An adapter with one HTTP client, opened when it is first used."""

    _opened: httpx2.AsyncClient | None = None

    @property
    def client(self) -> httpx2.AsyncClient:
        if self._opened is None:
            self._opened = self.open_client()
        return self._opened

    def open_client(self) -> httpx2.AsyncClient:
        return open_client()

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()
            self._opened = None


async def post(client: httpx2.AsyncClient, url: str, **content: Any) -> tuple[httpx2.Response, bytes]:
    """Send a POST request; see `call`."""
    return await call(client, "POST", url, **content)


async def call(
    client: httpx2.AsyncClient, method: str, url: str, *, most_bytes: int = _MOST_ANSWER_BYTES, **content: Any
) -> tuple[httpx2.Response, bytes]:
    """Send a request; return the response and its body, whatever its status. Raises SendError.

    A body that is cut off or longer than `most_bytes` is returned as far as it was read. Redirects are not followed.
    """
    try:
        request = client.build_request(method, url, **content)
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            return response, await _read(response, most_bytes)
        finally:
            await response.aclose()
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        host = httpx2.URL(url).host  # the only part of the URL that is not secret
        raise SendError(f"No connection to {host} ({type(error).__name__}).", SendCertainty.NOT_SENT) from None
    except ssrf_guard.RefusedTargetError as error:
        raise SendError(str(error), SendCertainty.REFUSED) from None
    except ToolError as error:
        raise SendError(str(error), SendCertainty.NOT_SENT) from None
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        raise SendError("The address to send to is not valid.", SendCertainty.REFUSED) from None
    except httpx2.HTTPError as error:
        problem = f"The connection was lost before a response arrived ({type(error).__name__})."
        raise SendError(problem, SendCertainty.UNKNOWN) from None


async def _read(response: httpx2.Response, most_bytes: int) -> bytes:
    """Read the body as far as it arrives: the outcome of the message is known from the status."""
    body = bytearray()
    with suppress(httpx2.HTTPError, TimeoutError):
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > most_bytes:
                    break
    return bytes(body[:most_bytes])


def certainty_of(status: int) -> SendCertainty:
    """Return the certainty about a message that was answered with this error status (RFC 9110, section 15)."""
    if status in _TRY_AGAIN:
        return SendCertainty.NOT_SENT
    # A server with an error of its own may have processed the message.
    return SendCertainty.UNKNOWN if status >= 500 else SendCertainty.REFUSED


async def download(
    client: httpx2.AsyncClient,
    url: str,
    most_bytes: int,
    *,
    follow_redirects: bool = False,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the content of a URL in pieces. headers: such as a token, only without redirects. Raises FetchError."""
    # Without compression: compressed content could expand to any size.
    headers = {"accept-encoding": "identity", **(headers or {})}
    try:
        async with client.stream("GET", url, headers=headers, follow_redirects=follow_redirects) as response:
            if not response.is_success:
                is_final = certainty_of(response.status_code) is SendCertainty.REFUSED
                raise FetchError(f"the server answered with status {response.status_code}", is_final=is_final)
            got = 0
            async for piece in response.aiter_raw():
                got += len(piece)
                if got > most_bytes:
                    raise FetchError(f"it has more than {most_bytes // MIB} MB", is_final=True)
                yield piece
    except (ssrf_guard.RefusedTargetError, httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.TooManyRedirects):
        raise FetchError("its address may not be reached", is_final=True) from None
    except (ToolError, httpx2.HTTPError) as error:
        raise FetchError(f"the connection failed ({type(error).__name__})", is_final=False) from None


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the wait of a `Retry-After` header, given in seconds or as an HTTP date (RFC 9110, section 10.2.3)."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    try:
        return max((parsedate_to_datetime(value) - now).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
