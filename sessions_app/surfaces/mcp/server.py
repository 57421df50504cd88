"""The MCP SDK's server with our tools, stateless. Loads the SDK, so it is imported at the first request."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import mcp_types as types
from django.conf import settings
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from audit_app.kernel.errors import AppError
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.mcp import tools

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
# The caller of the current request; the SDK's tasks inherit it.
caller: ContextVar[Principal] = ContextVar("caller")


class Endpoint:
    """The server of one event loop."""

    def __init__(self) -> None:
        self._manager = StreamableHTTPSessionManager(
            _server(), json_response=True, stateless=True, max_request_body_size=settings.KOMAND_MAX_BODY_BYTES
        )
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._manager_task = asyncio.create_task(self._run_manager())

    async def answer(self, principal: Principal, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one admitted HTTP request."""
        await asyncio.shield(self._ready)
        caller.set(principal)
        await self._manager.handle_request(dict(scope), receive, send)

    async def _run_manager(self) -> None:
        """Run the SDK's tasks, which must begin and end in one task."""
        async with self._manager.run():
            self._ready.set_result(None)
            await asyncio.Event().wait()


def _server() -> Server[Any]:
    return Server(
        "komand",
        title="Komand",
        instructions="Send messages to agents and read your own sessions.",
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


async def _list_tools(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=tool.parameters,
                annotations=types.ToolAnnotations(read_only_hint=tool.reads, destructive_hint=False),
            )
            for tool in tools.TOOLS.values()
        ]
    )


async def _call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    try:
        value = await tools.call(caller.get(), params.name, params.arguments or {})
    except AppError as error:
        return _text_result(error.message, is_error=True)
    except Exception as error:  # details of an internal error go to the log, not to the client
        return _text_result(http_error_of(error).message, is_error=True)
    result = _text_result(json.dumps(value, ensure_ascii=False))
    result.structured_content = value
    return result


def _text_result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)
