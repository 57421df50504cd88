"""The MCP SDK's server with our handlers. Loads the SDK, so it is imported at the first request.

A client of the newer revision sends each request for itself. `initialize` of the older one opens a session in this
process, over which the server can ask back; it is bound to the credential. A request of that revision without a
session, or with one of another process or from before a restart, is answered for itself, with JSON.
"""

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
from django.conf import settings
from django.utils.encoding import force_bytes
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from rest_framework.exceptions import MethodNotAllowed

from audit_app.kernel.errors import NotFound
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.mcp import handlers, registry, subscriptions, tasks_extension
from sessions_app.surfaces.mcp.calls import CLIENT_SESSION, PRINCIPAL, ClientSession, Context, principal_of, scope_of

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
_SESSION_HEADER, _VERSION_HEADER = b"mcp-session-id", b"mcp-protocol-version"
_MOST_SESSIONS = 2000  # open at once; the state of so many more is kept, so that they are known as ended
_STATE_SECONDS = 3600  # a person may take so long to answer
_NO_STREAM = MethodNotAllowed("GET", "Send `initialize` by POST first: only a session has a stream.")


class Endpoint:
    """The server of one event loop."""

    def __init__(self) -> None:
        server, most = build(), settings.KOMAND_MAX_BODY_BYTES
        self._plain = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=most
        )
        self._streaming = StreamableHTTPSessionManager(server, max_sessions=_MOST_SESSIONS, max_request_body_size=most)
        self._sessions: OrderedDict[bytes, ClientSession] = OrderedDict()
        self._serving = set[asyncio.Future[None]]()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._manager_task = asyncio.create_task(self._run_managers())

    async def answer(
        self, principal: Principal, scope: Mapping[str, Any], body: bytes, receive: Receive, send: Send
    ) -> None:
        """Serve one admitted HTTP request."""
        await asyncio.shield(self._ready)
        headers = dict(scope["headers"])
        session = self._sessions.get(headers.get(_SESSION_HEADER, b""))
        if scope["method"] != "POST" and session is None:
            raise NotFound("There is no such MCP session.") if _SESSION_HEADER in headers else _NO_STREAM
        marked = {**scope, PRINCIPAL: principal, CLIENT_SESSION: session, "user": _sdk_user(principal)}
        if session is None:
            await self._open(self._streaming if _takes_stream(headers, body) else self._plain, marked, receive, send)
        elif scope["method"] == "GET":
            await _beside(subscriptions.run_watches(session), self._streaming.handle_request(marked, receive, send))
        else:
            await self._streaming.handle_request(marked, receive, send)

    async def _open(
        self, manager: StreamableHTTPSessionManager, scope: dict[str, Any], receive: Receive, send: Send
    ) -> None:
        """Serve a request outside of a session, and note the session that its answer opens.

        The SDK forgets a session whose opening request is cancelled, as it is when a client leaves after the answer.
        """
        opened: list[bytes] = []

        async def noting(message: Any) -> None:
            if message["type"] == "http.response.start":
                opened.extend(value for name, value in message.get("headers", ()) if name == _SESSION_HEADER)
                self._sessions.update((key, ClientSession()) for key in opened)
            await send(message)

        serving = asyncio.ensure_future(manager.handle_request(scope, receive, noting))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            if not opened:
                serving.cancel()
            raise
        finally:
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)
            while len(self._sessions) > 2 * _MOST_SESSIONS:
                self._sessions.popitem(last=False)

    async def _run_managers(self) -> None:
        """Run the SDK's tasks, which must begin and end in one task."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._plain.run())
            await stack.enter_async_context(self._streaming.run())
            self._ready.set_result(None)
            await asyncio.Event().wait()


def _sdk_user(principal: Principal) -> AuthenticatedUser:
    """Return the credential as the SDK compares it with that which opened a session."""
    return AuthenticatedUser(AccessToken(token="", client_id=f"{principal.actor} {principal.credential}", scopes=[]))


def _takes_stream(headers: Mapping[bytes, bytes], body: bytes) -> bool:
    """Return whether a request outside of a session is answered with a stream, or opens a session."""
    if b"text/event-stream" not in headers.get(b"accept", b""):
        return False
    version = headers.get(_VERSION_HEADER, b"").decode("latin-1")
    return bool(version and version not in HANDSHAKE_PROTOCOL_VERSIONS) or _method_of(body) == "initialize"


def _method_of(body: bytes) -> Any:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return message.get("method") if isinstance(message, dict) else None


async def _beside(other: Awaitable[None], work: Awaitable[None]) -> None:
    beside = asyncio.ensure_future(other)
    try:
        await work
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


class _Server(Server[Any]):
    def get_capabilities(self, *given: Any, **named: Any) -> types.ServerCapabilities:
        """Return the capabilities without announcements of changed lists, which this server does not send."""
        capabilities = super().get_capabilities(*given, **named)
        for offered in (capabilities.tools, capabilities.prompts, capabilities.resources):
            if offered:
                offered.list_changed = None
        return capabilities


async def _set_level(context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    session: ClientSession | None = scope_of(context).get(CLIENT_SESSION)
    if session:
        session.level = params.level
    return types.EmptyResult()


def build() -> Server[Any]:
    """Return the server. State that clients keep between the rounds of a request is encrypted, bound to the user."""
    registry.load()
    server = _Server(
        "komand",
        version=settings.KOMAND_VERSION,
        title="Komand",
        instructions="Send messages to agents. Read your own sessions, files and memories.",
        cache_hints=handlers.CACHE_HINTS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=subscriptions.subscribe,
        on_unsubscribe_resource=subscriptions.unsubscribe,
        on_subscriptions_listen=subscriptions.listen,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _set_level)
    tasks_extension.install(server)
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    security = RequestStateSecurity(
        keys=[hashlib.sha256(b"mcp request state " + force_bytes(secret)).digest() for secret in secrets],
        ttl=_STATE_SECONDS,
        bind_principal=lambda context: principal_of(context).actor,
    )
    server.middleware.append(RequestStateBoundary(security, default_audience="komand"))
    return server
