"""A transport that authorizes requests to an MCP server by OAuth, and detects that it demands that. Loads the SDK."""

import json

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth

from tools_app.mcp_client.config import Tokens
from tools_app.mcp_client.errors import OnFault, ServerFault


class AuthorizedTransport(httpx2.AsyncBaseTransport):
    """A transport that sends the token to the server's origin, and answers for a server that demands another one.

    on_fault: called with the fault when the server demands authorization.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, tokens: Tokens, url: str, on_fault: OnFault) -> None:
        self._inner = inner
        self._tokens = tokens
        self._url = httpx2.URL(url)
        self._on_fault = on_fault

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if origin_of(request.url) != origin_of(self._url):
            return await self._inner.handle_async_request(request)
        try:
            token = await self._tokens.current()
            response = await self._send(request, token)
            if response.status_code == 401 and token and (other := await self._tokens.replacement(token)):
                await response.aclose()
                response = await self._send(request, other)
        except ServerFault as fault:
            self._on_fault(fault)
            raise
        error = extract_field_from_www_auth(response, "error")
        if response.status_code != 401 and not (response.status_code == 403 and error == "insufficient_scope"):
            return response
        await response.aclose()
        needed = await self._tokens.refused(response)
        self._on_fault(needed)
        body = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32001, "message": str(needed)}}
        headers = {"content-type": "application/json"}
        return httpx2.Response(response.status_code, headers=headers, content=json.dumps(body).encode())

    async def _send(self, request: httpx2.Request, token: str) -> httpx2.Response:
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def origin_of(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Return scheme, host and port; None is the default port of the scheme."""
    return url.scheme, url.host, url.port
