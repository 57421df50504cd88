"""One connection to one MCP server, from handshake to end. Loads the SDK; uses no rows.

The SDK's contexts must be left in the task that entered them, so each connection has a task of its own. Calls may come
from any task of the same loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tools_app.mcp_client import http_transport, results
from tools_app.mcp_client.config import MAX_TOOLS, Greeting, ServerConfig
from tools_app.mcp_client.errors import InputNeeded, NeedsAuthorization, Responses, ServerFault, reason_of
from tools_app.mcp_client.flood_guard import guarded
from tools_app.mcp_client.listed_tool import ListedTool, UnusableTool, read_tool, takes_timeout
from tools_app.mcp_client.open_calls import Answer, OpenCalls
from tools_app.mcp_client.stdio_transport import StdioServer
from tools_app.schema import find_problems
from tools_app.types import ToolError
from tools_app.types.pictures import NewPicture, Picture

_CLOSE_SECONDS = 4.0
_CHECK_SECONDS = 10.0
_PAGES = 20


class Progress(Protocol):
    """Callback for the progress of a call: progress, total if known, message."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class Connection:
    """A connection to a server.

    tools: as last listed.
    skipped: why other tools cannot be offered, by name.
    """

    def __init__(self, config: ServerConfig, on_list_changed: Callable[[], None] = lambda: None) -> None:
        """Create an unopened connection. on_list_changed: called when the server announces changed tools."""
        self._config = config
        self._on_list_changed = on_list_changed
        self._stdio = StdioServer(config) if config.transport == "stdio" else None
        self._client: Client | None = None
        self._over = asyncio.Event()
        self._fault: ServerFault | None = None
        self._life: asyncio.Task[None] | None = None
        self._with_timeout: set[str] = set()
        self._calls = OpenCalls()
        self.tools: dict[str, ListedTool] = {}
        self.skipped: dict[str, str] = {}
        self.greeting = Greeting("", "", "")

    @property
    def is_open(self) -> bool:
        return self._client is not None and not self._over.is_set()

    @property
    def is_busy(self) -> bool:
        return bool(self._calls)

    async def open(self) -> None:
        """Connect, shake hands and list the tools. Raises ServerFault, and closes everything opened so far."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(ready))
        try:
            async with asyncio.timeout(self._config.connect_seconds):
                await asyncio.shield(ready)
        except TimeoutError:
            await self.aclose()
            raise ServerFault(f"it did not respond within {self._config.connect_seconds:.0f} seconds") from None
        except BaseException:
            await self.aclose()
            raise
        finally:
            if ready.done() and not ready.cancelled():
                ready.exception()  # marks it as retrieved, to avoid asyncio's warning

    async def aclose(self) -> None:
        """Close the connection in any state. Afterwards a stdio server's process has ended."""
        self._over.set()
        if self._life is None:
            return
        if self._client is None:
            self._life.cancel()  # the handshake does not check `_over`
        await asyncio.wait({self._life}, timeout=_CLOSE_SECONDS)
        if not self._life.done():
            self._life.cancel()
            await asyncio.wait({self._life}, timeout=_CLOSE_SECONDS)

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        seconds: int,
        on_progress: Progress,
        responses: Responses | None = None,
        answer: Answer | None = None,
        pictures: list[NewPicture | Picture] | None = None,
    ) -> Any:
        """Call a tool and return a JSON value. Raises ToolError. Cancelling it cancels the call on the server.

        seconds: time limit, also sent to tools that have an argument `timeout_seconds`.
        responses: to what the server needed in the round before.
        answer: answers what the server asks during the call; by default that is cancelled.
        pictures: gets those of the result.
        Raises InputNeeded if the server needs answers first, and CallStopped if `answer` has refused a request.
        """
        if self._client is None or not self.is_open:
            raise self._lost("the connection ended")
        sent = {**arguments, "timeout_seconds": seconds} if tool in self._with_timeout else dict(arguments)
        more: dict[str, Any] = {"progress_callback": on_progress, "allow_input_required": True}
        if responses is not None:
            more |= {"input_responses": responses.given, "request_state": responses.state}
        try:
            result = await self._calls.run(self._send(self._client, tool, sent, more), answer)
        except MCPError as error:
            raise self._refusal(error) from error
        except (ValidationError, RuntimeError) as error:  # the SDK's errors for malformed results
            raise self._broken(tool, reason_of(error)) from error
        value = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        if isinstance(result, types.InputRequiredResult):
            raise InputNeeded(value.get("inputRequests") or {}, result.request_state)
        listed = self.tools.get(tool)
        if listed and listed.returns is not None and not value.get("isError"):
            # In a thread: evaluating the server's schema may block, and other runs share this loop.
            problems = await asyncio.to_thread(find_problems, value.get("structuredContent"), listed.returns)
            if problems:
                raise self._broken(tool, problems)
        if pictures is not None:
            pictures += results.pictures_of(value)
        return results.value_of(value)

    async def _send(self, client: Client, tool: str, sent: dict[str, Any], more: dict[str, Any]) -> Any:
        """Send a call; again after a new listing if the server demands other headers for the same tool."""
        try:
            return await client.session.call_tool(tool, sent, **more)
        except MCPError as error:
            listed = self.tools.get(tool)
            if error.code != types.HEADER_MISMATCH or client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                raise
            await self.list_tools()
            if self.tools.get(tool) != listed:
                raise
            return await client.session.call_tool(tool, sent, **more)

    async def check(self) -> None:
        """Check that the server responds. Raises ServerFault, and ends the connection, if not."""
        if self._client is None:
            raise ServerFault("it is not connected")
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS:  # without `ping`
                    await self._client.session.list_tools()
                else:
                    await self._client.session.send_ping()
        except (MCPError, TimeoutError, ValidationError) as error:
            self._over.set()
            if isinstance(self._fault, NeedsAuthorization):
                raise self._fault from error
            raise ServerFault(f"it did not respond to a ping: {reason_of(error)}") from error

    async def list_tools(self) -> None:
        """List the tools again. Raises ServerFault."""
        if self._client is None:
            raise ServerFault("it is not connected")
        try:
            async with asyncio.timeout(self._config.connect_seconds):
                await self._list_tools(self._client)
        except (MCPError, TimeoutError, ValidationError) as error:
            raise ServerFault(f"it did not list its tools: {reason_of(error)}") from error

    async def _live(self, ready: asyncio.Future[None]) -> None:
        try:
            info = types.Implementation(name="komand", version="1")
            client = Client(
                self._transport(),
                cache=None,
                client_info=info,
                message_handler=self._on_message,
                elicitation_callback=self._calls.elicit,
            )
            async with client:
                await self._prepare(client)
                ready.set_result(None)
                async with self._listening(client):
                    await self._over.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # task groups raise groups of exceptions
            self._fault = self._fault or ServerFault(reason_of(error))
        finally:
            self._client = None
            self._over.set()
            if not ready.done():
                ready.set_exception(self._why())

    def _transport(self) -> Any:
        match self._config.transport:
            case "stdio":
                transport = self._stdio.streams() if self._stdio else None
            case "sse":
                transport = http_transport.sse(self._config, self._unauthorized)
            case _:
                transport = http_transport.streamable_http(self._config, self._unauthorized)
        return guarded(transport, self._ended)

    def _unauthorized(self, fault: ServerFault) -> None:
        """End the connection, unless the fault is of one call, for which the server demands more rights."""
        if self._client is None or not (isinstance(fault, NeedsAuthorization) and fault.scope):
            self._ended(fault)

    def _ended(self, fault: ServerFault | None) -> None:
        self._fault = self._fault or fault
        self._over.set()

    async def _prepare(self, client: Client) -> None:
        await self._list_tools(client)
        server = client.server_info
        name, version = (server.name, server.version) if server else ("", "")
        self.greeting = Greeting(name, version, client.protocol_version)
        # The SDK would evaluate the server's schemas on this loop, including regular expressions.
        client.session.validate_tool_result = _leave_unchecked  # type: ignore[method-assign]
        self._client = client

    async def _list_tools(self, client: Client) -> None:
        listed: dict[str, ListedTool] = {}
        skipped: dict[str, str] = {}
        with_timeout: set[str] = set()
        if client.server_capabilities.tools is None:
            self.tools, self.skipped = {}, {}
            return
        async for tools in _tool_pages(client):
            for tool in tools[: MAX_TOOLS - len(listed)]:
                described = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
                try:
                    usable = await asyncio.to_thread(read_tool, described)
                except UnusableTool as problem:
                    skipped[tool.name[:128]] = str(problem)
                    continue
                listed[usable.name] = usable
                if takes_timeout(described):
                    with_timeout.add(usable.name)
        self.tools, self.skipped, self._with_timeout = listed, skipped, with_timeout

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._on_list_changed()

    @contextlib.asynccontextmanager
    async def _listening(self, client: Client) -> Any:
        """Servers of the newest protocol announce changes only to clients that have subscribed."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
            yield
            return
        task = asyncio.create_task(self._listen(client))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _listen(self, client: Client) -> None:
        with contextlib.suppress(Exception):  # optional: without a subscription the tools stay as listed
            async with client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    self._on_list_changed()

    def _refusal(self, error: MCPError) -> ToolError | InputNeeded:
        if error.code == types.URL_ELICITATION_REQUIRED and (links := _links_of(error.error.data)):
            return InputNeeded(links, None, takes_responses=False)
        if error.code == types.CONNECTION_CLOSED or "Session terminated" in error.message:
            self._over.set()
        if isinstance(self._fault, NeedsAuthorization):  # the server has not begun the call
            return self._fault.as_tool_error(self._config.name)
        if self._over.is_set():
            return self._lost("it disconnected")
        return ToolError(f"The MCP server {self._config.name} refused the call: {reason_of(error)}")

    def _broken(self, tool: str, problem: str) -> ToolError:
        return ToolError(f"The MCP server {self._config.name} returned an invalid result of {tool}: {problem}")

    def _lost(self, what: str) -> ToolError:
        problem = self._why(what)
        return ToolError(
            f"The MCP server {self._config.name} was lost during the call: {problem}. Whether the call took effect is "
            "not known: check before you repeat it."
        )

    def _why(self, otherwise: str = "the connection ended") -> ServerFault:
        """Return the root cause: a fault of the process or a flood, before the error that the session raised."""
        if self._stdio is not None and self._stdio.fault is not None:
            return self._stdio.fault
        return self._fault or ServerFault(otherwise)

    @property
    def last_log_lines(self) -> str:
        """Return the last lines that a stdio server logged: for operators, never for a model."""
        return self._stdio.last_log_lines if self._stdio else ""


async def _tool_pages(client: Client) -> AsyncIterator[Sequence[types.Tool]]:
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        yield page.tools
        cursor = page.next_cursor
        if cursor is None:
            return


def _links_of(data: Any) -> dict[str, Any]:
    """Return the links that a server demands to be opened before a call, as requests; none if it names none."""
    listed = data.get("elicitations") if isinstance(data, dict) else None
    links = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    params = ({**link, "mode": "url"} for link in links)
    return {str(number): {"method": "elicitation/create", "params": each} for number, each in enumerate(params)}


async def _leave_unchecked(name: str, result: types.CallToolResult) -> None:
    """Skip the SDK's validation: `Connection.call` validates results."""
