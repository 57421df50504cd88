"""The tools of MCP servers as agents use them: `mcp__<server>__<tool>`, as an operator approved them.

Uses the rows and, from the first call on, the connections of this process.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.utils.module_loading import import_string

from audit_app import stream
from audit_app.event_types import NewEvent
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from tools_app import hot_queries
from tools_app.catalogue import ToolSource
from tools_app.events import TOOL_PROGRESS, ToolProgress
from tools_app.mcp_client import input_rounds, servers
from tools_app.mcp_client.errors import CallStopped, Responses, ServerFault
from tools_app.mcp_client.input_rounds import Asker
from tools_app.mcp_client.listed_tool import ListedTool, public_names
from tools_app.models import McpServer, McpTool
from tools_app.types import AnyTool, AsyncTool, Effect, Risk, ToolContext, ToolError, ToolSpec
from tools_app.types.questions import MCP_PREFIX

_POOL = "tools_app.mcp_client.pool.Pool"
_PROGRESS_SECONDS = 0.25
_PROGRESS_CHARACTERS = 200


class RemoteTool(AsyncTool):
    """A tool of an MCP server."""

    def __init__(self, server: McpServer, row: McpTool, public_name: str) -> None:
        self._server_id, self._server = server.id, server.name
        self._version = server.settings_version
        self._name, self._digest = row.name, row.approved_digest
        self.spec = ToolSpec(
            name=public_name,
            description=row.description or row.title or f"{row.name} of the MCP server {server.name}.",
            parameters=row.parameters,
            effect=Effect(row.effect or server.default_effect),
            risk=Risk(row.risk or server.default_risk),
            timeout_seconds=server.call_seconds,
            server=server.name,
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        try:
            pool = await connections.pool()
            connection = await pool.connection(self._server_id, self._version)
        except ServerFault as fault:
            raise fault.as_tool_error(self._server) from fault
        except AppError as error:  # such as a missing credential
            await in_db(servers.store_fault, self._server_id, error.message)
            raise ToolError(f"The MCP server {self._server} cannot be used: {error.message}") from error
        self._check_unchanged(connection.tools.get(self._name))
        report = _ProgressReporter(context).report

        async def send(responses: Responses | None, asker: Asker) -> Any:
            given = {"seconds": context.timeout_seconds, "on_progress": report, "responses": responses}
            try:
                return await connection.call(
                    self._name, arguments, **given, answer=asker.answer, pictures=context.pictures
                )
            except CallStopped:
                raise asker.refusal or ToolError("The call was stopped.") from None

        return await input_rounds.make_call(self._server, context, send)

    def _check_unchanged(self, listed: ListedTool | None) -> None:
        if listed is None:
            raise ToolError(f"The MCP server {self._server} no longer has a tool {self._name}.")
        if listed.digest != self._digest:
            raise ToolError(
                f"The tool {self._name} of the MCP server {self._server} has changed since an operator approved it. "
                "It can be used again after an operator has approved the change."
            )


class _ProgressReporter:
    """Sends the progress of a call to viewers, at most a few times a second."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._next_at = 0.0

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + _PROGRESS_SECONDS
        fraction = min(max(progress / total, 0.0), 1.0) if total and total > 0 else None
        progress_made: ToolProgress = {
            "execution_id": str(self._context.execution_id),
            "text": (message or "")[:_PROGRESS_CHARACTERS],
            "fraction": fraction,
        }
        event = NewEvent(TOOL_PROGRESS, self._context.session_id, progress_made, run_id=self._context.run_id)
        await asyncio.to_thread(stream.send_passing, event)


class Connections:
    """The connection pools of this process, one for each event loop: scripts have several, a worker has one.

    Each is created by the first call on its loop, because that loads the SDK.
    """

    def __init__(self) -> None:
        self._pools: dict[asyncio.AbstractEventLoop, Any] = {}

    async def pool(self) -> Any:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            pool_class = await asyncio.to_thread(import_string, _POOL)
            if loop not in self._pools:  # another call may have created it meanwhile
                for closed in [known for known in list(self._pools) if known.is_closed()]:
                    self._pools.pop(closed, None)
                self._pools[loop] = pool_class(lambda server_id: in_db(servers.load_config, server_id), _report)
        return self._pools[loop]

    async def look_after(self) -> None:
        """Maintain the open connections of this loop, see `Pool.look_after`."""
        if pool := self._pools.get(asyncio.get_running_loop()):
            await pool.look_after(await in_db(servers.list_live))

    async def aclose(self) -> None:
        """Close every connection of this loop. The next call creates a new pool."""
        if pool := self._pools.pop(asyncio.get_running_loop(), None):
            await pool.aclose()


connections = Connections()


async def _report(server_id: UUID, connection: Any, fault: ServerFault | None) -> None:
    if fault is None:
        await in_db(servers.store_listing, server_id, tuple(connection.tools.values()), connection.greeting)
    else:
        problem = f"{fault}. It logged: {connection.last_log_lines}" if connection.last_log_lines else f"{fault}."
        await in_db(servers.store_fault, server_id, problem, fault.state)


class McpSource(ToolSource):
    """The tools of all enabled servers. An agent's policy decides which of them it may use."""

    prefix, flag = MCP_PREFIX, "has_servers"

    def __init__(self) -> None:
        self._versions: tuple[Any, ...] = ()
        self._tools: dict[str, AnyTool] = {}

    def list_tools(self, agent_id: str) -> Iterable[AnyTool]:
        return list(self._known().values())

    def find_tool(self, name: str, agent_id: str) -> AnyTool | None:
        return self._known().get(name)

    def _known(self) -> dict[str, AnyTool]:
        """Return the tools by name, read again when a version has changed, which one small query detects."""
        versions = tuple(hot_queries.LIST_SERVER_VERSIONS.rows())
        if versions != self._versions:
            self._tools = _read_tools() if versions else {}
            self._versions = versions
        return self._tools


def _read_tools() -> dict[str, AnyTool]:
    found: dict[str, AnyTool] = {}
    for server in McpServer.objects.filter(is_enabled=True).prefetch_related("tools"):
        rows = {row.name: row for row in server.tools.all()}
        for name, public_name in public_names(server.name, rows).items():
            if rows[name].status == "offered":
                found[public_name] = RemoteTool(server, rows[name], public_name)
    return found
