"""HTTP transports, streamable HTTP and SSE: the SDK's, on an HTTP client that limits what a server sends.

The URL is an operator's and may be private. Redirects are followed within its origin only (the SDK's rule), no proxy is
taken from the environment, and compressed bodies are refused, so that the bytes counted are the bytes held.
"""

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tools_app.mcp_client.authorized_transport import AuthorizedTransport
from tools_app.mcp_client.config import MAX_MESSAGE_BYTES, ServerConfig
from tools_app.mcp_client.errors import OnFault, ServerFault
from tools_app.mcp_client.token_bucket import Bucket

_BYTES_AT_ONCE, _BYTES_PER_SECOND = 64 * 1024 * 1024, 4 * 1024 * 1024
_REQUEST_SECONDS = 30.0
_SILENCE_SECONDS = 3600.0  # between events of an open stream; a call has its own limit


def _ignore(fault: ServerFault) -> None:
    """Ignore a fault: the response to the request has it, too."""


@contextlib.asynccontextmanager
async def streamable_http(config: ServerConfig, on_fault: OnFault = _ignore) -> AsyncIterator[Any]:
    """Yield the SDK's streamable HTTP transport, on a client that is closed with it.

    on_fault: called when the server demands authorization.
    """
    async with (
        _client(config, on_fault, dict(config.headers)) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


def sse(config: ServerConfig, on_fault: OnFault = _ignore) -> Any:
    """Return the SDK's transport for the older HTTP+SSE protocol: one event stream, messages posted beside it."""
    client = partial(_client, config, on_fault)
    headers = dict(config.headers)
    return sse_client(config.url, headers=headers, sse_read_timeout=_SILENCE_SECONDS, httpx_client_factory=client)


def _client(
    config: ServerConfig,
    on_fault: OnFault,
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    transport: httpx2.AsyncBaseTransport = MeteredTransport()
    if config.tokens is not None:
        transport = AuthorizedTransport(transport, config.tokens, config.url, on_fault)
    return httpx2.AsyncClient(
        headers={**(headers or {}), "Accept-Encoding": "identity"},
        auth=auth,
        trust_env=False,
        timeout=timeout or httpx2.Timeout(_REQUEST_SECONDS, read=_SILENCE_SECONDS),
        transport=transport,
    )


class MeteredTransport(httpx2.AsyncBaseTransport):
    """httpx2's transport; a response that is too large or too fast ends in an error."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)
        self._bucket = Bucket(_BYTES_AT_ONCE, _BYTES_PER_SECOND)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            raise httpx2.ReadError("the server sent a compressed response, which is not supported", request=request)
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        at_most = None if is_stream else MAX_MESSAGE_BYTES
        response.stream = _Metered(response.stream, self._bucket, at_most)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Metered(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, bucket: Bucket, at_most: int | None) -> None:
        self._inner = inner
        self._bucket = bucket
        self._left = at_most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            if self._left is not None:
                self._left -= len(chunk)
                if self._left < 0:
                    raise httpx2.ReadError(f"the server sent more than {MAX_MESSAGE_BYTES // 1024} KB in one response")
            if not self._bucket.take(len(chunk)):
                raise httpx2.ReadError("the server sent more data than is allowed")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
