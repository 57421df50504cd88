"""The HTTP client of the authorization flow: a server's own origin as the operator set it, all others guarded.

The address of an MCP server is an operator's and may be private. Every other address of the flow is named by the server
or its authorization server, and must be public, over https, or listed in KOMAND_CALLBACK_ALLOW_PRIVATE.
"""

import asyncio
import json
from collections.abc import Collection
from typing import Any

import httpx2

from audit_app.kernel import redact
from tools_app.mcp_client.authorized_transport import origin_of
from tools_app.mcp_client.http_transport import MeteredTransport
from tools_app.network.async_transport import AsyncGuardedTransport
from tools_app.types import ToolError

_SECONDS = 15.0  # of one request, with its response
_MOST_BYTES = 256 * 1024


class FlowError(Exception):
    """The flow cannot go on. The message is for operators; it contains no secret."""


class Unreachable(FlowError):
    """A server of the flow did not answer, or not now: a retry may succeed."""


class FlowClient:
    """A client for the requests of one flow. It follows no redirects, and uses no proxy of the environment."""

    def __init__(self, server_url: str, reachable: Collection[str]) -> None:
        self._origin = origin_of(httpx2.URL(server_url))
        self._reachable = reachable
        self._own = httpx2.AsyncClient(transport=MeteredTransport(), trust_env=False)
        self._others = httpx2.AsyncClient(transport=AsyncGuardedTransport(reachable), trust_env=False)

    async def __aenter__(self) -> "FlowClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._own.aclose()
        await self._others.aclose()

    def check(self, url: str, what: str) -> str:
        """Return the URL, which may be sent secrets or a user. Raises FlowError unless it is https or trusted."""
        parsed = httpx2.URL(url)
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        trusted = origin_of(parsed) == self._origin or f"{parsed.host}:{port}" in self._reachable
        if parsed.scheme != "https" and not trusted:
            raise FlowError(f"The {what} {_shown(parsed)} does not use https.")
        return url

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response with its body, whatever the status. Raises FlowError, Unreachable."""
        client = self._own if origin_of(request.url) == self._origin else self._others
        request.headers["Accept-Encoding"] = "identity"
        request.extensions = {**request.extensions, "timeout": httpx2.Timeout(_SECONDS).as_dict()}
        try:
            async with asyncio.timeout(_SECONDS):
                response = await client.send(request, stream=True, follow_redirects=False)
                try:
                    body = await _read(response)
                finally:
                    await response.aclose()
        except ToolError as refused:  # by the guard
            raise FlowError(f"{_shown(request.url)} may not be reached: {refused}") from None
        except (httpx2.HTTPError, TimeoutError, OSError) as error:
            raise Unreachable(f"{_shown(request.url)} did not answer ({type(error).__name__}).") from None
        headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
        return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


async def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > _MOST_BYTES:
            raise httpx2.ReadError("the response is too long")
    return bytes(body)


def error_of(response: httpx2.Response) -> tuple[str, str]:
    """Return the OAuth error code of a response, and a line about it for operators, with secrets masked."""
    try:
        answer: Any = json.loads(response.content)
    except ValueError:
        answer = None
    answer = answer if isinstance(answer, dict) else {}
    code = str(answer.get("error") or f"status {response.status_code}")[:60]
    about = " ".join(str(answer.get("error_description") or "").split())
    return code, redact.masked_text(f"{code}: {about}" if about else code)[:200]


def _shown(url: httpx2.URL) -> str:
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))[:200]
