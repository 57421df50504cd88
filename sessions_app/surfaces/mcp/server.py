"""The SDK's server around our tools, stateless and in JSON. Loads the SDK: imported by path, at the first request."""

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

# Who makes the request that is being answered; the SDK's tasks inherit it.
caller: ContextVar[Principal] = ContextVar("caller")


class Endpoint:
    """The protocol's end on one event loop: `answer` serves one HTTP request that was admitted."""

    def __init__(self) -> None:
        self._manager = StreamableHTTPSessionManager(
            _server(), json_response=True, stateless=True, max_request_body_size=settings.KOMAND_MAX_BODY_BYTES
        )
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live())

    async def answer(
        self,
        principal: Principal,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        await asyncio.shield(self._ready)
        caller.set(principal)
        await self._manager.handle_request(dict(scope), receive, send)

    async def _live(self) -> None:
        """The SDK's tasks have to begin and end in one task, which is this."""
        async with self._manager.run():
            self._ready.set_result(None)
            await asyncio.Event().wait()


def _server() -> Server[Any]:
    return Server(
        "komand",
        title="Komand",
        instructions="Ask agents and read your own sessions with them.",
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
        return _said(error.message, is_error=True)
    except Exception as error:  # no details of a fault of ours for the other side; the log has them
        return _said(http_error_of(error).message, is_error=True)
    result = _said(json.dumps(value, ensure_ascii=False))
    result.structured_content = value
    return result


def _said(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)
