"""`POST /mcp`: the Streamable HTTP transport of MCP. Admits a request by its bearer token or API key."""

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from django.urls import path
from django.utils.module_loading import import_string

from sessions_app.identity.request_admission import admit_bearer
from sessions_app.surfaces.base.consumers import LiveConsumer
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import OBJECT, TEXT, just, ref

_ENDPOINT = "sessions_app.surfaces.mcp.server.Endpoint"
_REQUEST = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": just("2.0"),
        "id": {"type": ["string", "integer", "null"]},
        "method": TEXT,
        "params": OBJECT,
    },
}

_endpoints: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
_creation_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


class McpEndpoint(LiveConsumer):
    methods = ("POST", "GET", "DELETE")
    is_endless = True
    admit = staticmethod(admit_bearer)  # also with a read-only key: such a key is refused per tool

    @Operation(
        "Send a JSON-RPC message",
        ref("McpResult"),
        body=_REQUEST,
        errors=[404, 406],
        streams=True,
        answers={
            202: Answer("Accepted; a notification has no result."),
            406: Answer("`Accept` must include application/json."),
        },
        description="Streamable HTTP. With `Accept: text/event-stream` an answer may be a stream of messages.",
    )
    async def post(self, body: bytes) -> None:
        await self._answer(body)

    @Operation(
        "Receive the messages of an MCP session",
        errors=[404, 405, 406],
        streams=True,
        answers={200: Answer("A stream of messages.", media_type="text/event-stream")},
        description="Of the session that `Mcp-Session-Id` names: notifications of changed resources.",
    )
    async def get(self, body: bytes) -> None:
        await self._answer(body)

    @Operation("End an MCP session", errors=[404, 405], description="The session that `Mcp-Session-Id` names.")
    async def delete(self, body: bytes) -> None:
        await self._answer(body)

    async def _answer(self, body: bytes) -> None:
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if unread:
                return unread.pop()
            return await asyncio.Event().wait()  # the base class cancels this when the client leaves

        endpoint = await _endpoint()
        await endpoint.answer(self.principal, self.scope, body, receive, self.send)


async def _endpoint() -> Any:
    """Return the endpoint of this event loop. The first request loads the SDK and creates it."""
    loop = asyncio.get_running_loop()
    async with _creation_locks.setdefault(loop, asyncio.Lock()):
        if loop not in _endpoints:
            endpoint_class = await asyncio.to_thread(import_string, _ENDPOINT)
            _endpoints[loop] = endpoint_class()
        return _endpoints[loop]


routes = [path("mcp", McpEndpoint.as_asgi())]
