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
    methods = ("POST",)
    admit = staticmethod(admit_bearer)  # also with a read-only key: `tools.call` refuses such a key per tool

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
        description="Streamable HTTP without sessions; answers are JSON. Tools that call an agent wait for it.",
    )
    async def respond(self, body: bytes) -> None:
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if unread:
                return unread.pop()
            return await asyncio.Event().wait()  # the base class cancels this when the client leaves

        endpoint = await _endpoint()
        await endpoint.answer(self.principal, self.scope, receive, self.send)


async def _endpoint() -> Any:
    """Return the endpoint of this event loop. The first request loads the SDK and creates it."""
    loop = asyncio.get_running_loop()
    async with _creation_locks.setdefault(loop, asyncio.Lock()):
        if loop not in _endpoints:
            endpoint_class = await asyncio.to_thread(import_string, _ENDPOINT)
            _endpoints[loop] = endpoint_class()
        return _endpoints[loop]


routes = [path("mcp", McpEndpoint.as_asgi())]
