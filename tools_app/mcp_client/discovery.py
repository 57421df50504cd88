"""Connects to a server once, from a command or a page, to list its tools. Blocks; runs an event loop of its own.

The first use in a process loads the SDK.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from django.utils.module_loading import import_string

from audit_app.kernel.errors import Unavailable
from tools_app.mcp_client import servers
from tools_app.mcp_client.config import Greeting, ServerConfig
from tools_app.mcp_client.errors import NeedsAuthorization, ServerFault
from tools_app.mcp_client.listed_tool import ListedTool
from tools_app.mcp_client.servers import Listed
from tools_app.models import McpServer

_CONNECTION = "tools_app.mcp_client.connection.Connection"


@dataclass(frozen=True)
class Discovered:
    """A server and its tools as listed. skipped: why other tools cannot be offered, by name."""

    greeting: Greeting
    tools: tuple[ListedTool, ...]
    skipped: dict[str, str]


def discover(server: McpServer) -> Discovered:
    """Return the server's identification and tools; stores nothing. Raises Unavailable, for operators."""
    try:
        return asyncio.run(_reach(servers.config_of(server), import_string(_CONNECTION)))
    except NeedsAuthorization as fault:
        raise Unavailable(f"The MCP server {server.name} cannot be used yet: {fault}.", code=fault.state) from fault
    except ServerFault as fault:
        raise Unavailable(f"The MCP server {server.name} cannot be reached: {fault}.", code="server_unreachable") from (
            fault
        )


def refresh(server: McpServer) -> tuple[Discovered, Listed]:
    """Store what the server lists, or why it could not be reached. Raises Unavailable."""
    try:
        found = discover(server)
    except Unavailable as problem:
        state = problem.__cause__.state if isinstance(problem.__cause__, ServerFault) else ServerFault.state
        servers.store_fault(server.id, problem.message, state)
        raise
    return found, servers.store_listing(server.id, found.tools, found.greeting)


async def _reach(config: ServerConfig, connection_class: Any) -> Discovered:
    connection = connection_class(config)
    try:
        await connection.open()
        return Discovered(connection.greeting, tuple(connection.tools.values()), connection.skipped)
    except ServerFault as fault:
        if connection.last_log_lines:
            raise ServerFault(f"{fault} (it logged: {connection.last_log_lines})") from fault
        raise
    finally:
        await asyncio.shield(connection.aclose())
