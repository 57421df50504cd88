"""The transports of the hub: negotiation, WebSockets, Server-Sent Events and long polling.

Implements TransportProtocols.md of ASP.NET Core. Credentials are in the Authorization header, or in the query as
`access_token` where browsers cannot send the header; for an API key, the negotiation issues a token for that. Session
cookies are ignored, so that other origins can be allowed.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http import HttpRequest
from django.urls import path

from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, Forbidden
from sessions_app.identity import api_keys, rate_limits, session_tokens
from sessions_app.identity.authentication import authenticate
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.identity.request_admission import admit_again, admit_bearer
from sessions_app.surfaces.base.consumers import LiveConsumer
from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import TEXT, one_of, ref
from sessions_app.surfaces.base.reauthentication import until_refused
from sessions_app.surfaces.base.sse import EventStreamConsumer
from sessions_app.surfaces.signalr import connections
from sessions_app.surfaces.signalr.connections import Connection
from sessions_app.surfaces.signalr.hub import PING_SECONDS, Hub

POSITIONS = "positions"  # a parameter of the hub's URL, which clients keep in all their requests
_NAMES = ("WebSockets", "ServerSentEvents", "LongPolling")
_TRANSPORTS = [{"transport": name, "transferFormats": ["Text"]} for name in _NAMES]
_VERSION = "With 1, the connection token differs from the connection id."
_ID = Parameter("id", "The connection token that the negotiation returned.", TEXT, required=True)
_CONNECTED: dict[str, Any] = {"streams": True, "parameters": [_ID]}
_TEXT_TYPE = "text/plain"
_SILENT_SECONDS = 4 * PING_SECONDS  # without a ping, after which a client is considered gone


def _credential_of(request: HttpRequest) -> str:
    in_header = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")[2].strip()
    return in_header or request.GET.get("access_token", "")


def _admit(request: HttpRequest, limit: rate_limits.Limit) -> Principal:
    """Return the principal of a request, as `admit_bearer`, or that of the open connection that extends its token."""
    connection = connections.find_extended(request.GET.get("id", ""), _credential_of(request))
    if connection is None:
        return admit_bearer(request, limit, from_query="token")
    return admit_again(request, connection.principal, limit)


class _HubRequest(LiveConsumer):
    """A request of a client. Its media type is ignored: clients send none, or text/plain."""

    admit = staticmethod(_admit)
    methods: ClassVar[tuple[str, ...]] = ("POST",)
    media_types: ClassVar[tuple[str, ...]] = ()

    def _common_headers(self) -> dict[str, str]:
        headers = super()._common_headers()
        if "Access-Control-Allow-Origin" in headers:  # browsers require it: clients request with credentials
            headers["Access-Control-Allow-Credentials"] = "true"
        return headers


class Negotiate(_HubRequest):
    """TransportProtocols.md, "`POST [endpoint-base]/negotiate` request"."""

    @Operation(
        "Negotiate a connection",
        ref("HubNegotiation"),
        parameters=[Parameter("negotiateVersion", _VERSION, one_of(["0", "1"]))],
    )
    async def respond(self, body: bytes) -> None:
        connection = connections.negotiate(self.principal)
        connection.hub.has_positions = _asks_for_positions(self.request.GET.get(POSITIONS, ""))
        version = 1 if self.request.GET.get("negotiateVersion", "0") != "0" else 0
        # Clients of version 0 send `connectionId` as the `id` of later requests.
        connection_id = connection.connection_id if version else connection.token
        ids = {"connectionId": connection_id, "connectionToken": connection.token}
        issued: dict[str, str] = {}
        if _credential_of(self.request).startswith(api_keys.MARK):
            connection.issued_token = session_tokens.issue_session_token(self.principal, {})
            issued = {"accessToken": connection.issued_token}
        await self.send_json(200, {"negotiateVersion": version, **ids, **issued, "availableTransports": _TRANSPORTS})


class HubOverHttp(EventStreamConsumer, _HubRequest):
    """GET: an event stream or a poll. POST: records of the client. DELETE: the end of the connection.

    TransportProtocols.md, "HTTP Post (Client-to-Server only)", "Server-Sent Events (Server-to-Client only)" and "Long
    Polling (Server-to-Client only)".
    """

    methods = ("GET", "POST", "DELETE")
    is_endless = True

    @Operation(
        "Stream or poll messages of the hub",
        errors=[403, 404, 409],
        answers={
            200: Answer(f"Messages; as {EVENTS} if the client accepts it.", TEXT, _TEXT_TYPE),
            204: Answer("The connection is closed."),
        },
        **_CONNECTED,
    )
    async def get(self, body: bytes) -> None:
        if "text/event-stream" in self._headers.get("accept", ""):
            await self._stream(self._connection())
        else:
            await self._poll(self._connection())

    @Operation(
        "Send messages to the hub",
        errors=[404, 409, 413],
        answers={200: Answer("Accepted.", media_type=_TEXT_TYPE)},
        **_CONNECTED,
    )
    async def post(self, body: bytes) -> None:
        connection = self._connection()
        if not connection.is_open:
            message = "The connection has no transport yet. Open an event stream or poll first."
            raise Forbidden(message, code="not_connected")
        await connection.hub.receive(body.decode("utf-8"))
        await self._answer(200)

    @Operation(
        "Close a connection",
        errors=[404, 409],
        answers={202: Answer("Closing.", media_type=_TEXT_TYPE)},
        status=202,
        **_CONNECTED,
    )
    async def delete(self, body: bytes) -> None:
        self._connection().hub.closed.set()
        await self._answer(202)

    def _connection(self) -> Connection:
        connection = connections.find(self.request.GET.get("id", ""), self.principal)
        self.principal = connection.principal
        return connection

    async def _stream(self, connection: Connection) -> None:
        connection = connections.claim(connection.token, self.principal)
        hub = connection.hub
        await self.open_stream()
        await self.send_text(":\n\n")
        try:
            while not hub.closed.is_set() or connection.waiting:
                if frames := await connection.take(PING_SECONDS):
                    await self.send_event(frames)
        finally:
            connections.forget(connection)
            await hub.end()
        await self.close_stream()

    async def _poll(self, connection: Connection) -> None:
        if not connection.is_open:
            connection.is_open = True
            asyncio.get_running_loop().create_task(_end_when_gone(connection))
            await self._answer(200)  # to the first poll, which opens the connection
            return
        connection.polls += 1
        try:
            frames = await connection.take(connections.POLL_SECONDS)
        finally:
            connection.polls -= 1
            connection.seen_at = time.monotonic()
        await self._answer(204 if not frames and connection.hub.closed.is_set() else 200, frames)

    async def _answer(self, status: int, text: str = "") -> None:
        body = text.encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


async def _end_when_gone(connection: Connection) -> None:
    """End a polled connection when it was closed and its frames were fetched, or when its client is gone."""
    while True:
        await asyncio.sleep(1)
        is_gone = not connection.polls and time.monotonic() - connection.seen_at > connections.GONE_SECONDS
        if is_gone or (connection.hub.closed.is_set() and not connection.waiting):
            break
    await asyncio.sleep(1)  # the client may still poll for the end
    connections.forget(connection)
    await connection.hub.end()


class HubSocket(AsyncWebsocketConsumer):
    """The hub over a WebSocket. A client without an `id` skipped negotiation.

    TransportProtocols.md, "WebSockets (Full Duplex)".
    """

    _hub: Hub | None = None
    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        try:
            principal = await in_db(_principal_of, self.scope)
            query = parse_qs(self.scope["query_string"].decode("latin-1"))
            token = query.get("id", [""])[0]
            connection = connections.claim(token, principal) if token else Connection(principal)
            connection.hub.has_positions = _asks_for_positions(query.get(POSITIONS, [""])[0])
        except (AppError, UnicodeDecodeError):
            await self.close()  # before `accept`: the client receives 403
            return
        context.actor.set(principal.actor)
        self._connection, self._hub = connection, connection.hub
        self._hub.send = self._send
        self._received_at = time.monotonic()
        await self.accept()
        work = (self._end_with(self._hub), _close_when_refused(connection))
        self._tasks = tuple(asyncio.create_task(part) for part in work)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self._received_at = time.monotonic()
        if self._hub:
            given = text_data if text_data is not None else (bytes_data or b"").decode("utf-8", "replace")
            await self._hub.receive(given)

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        if self._hub:
            connections.forget(self._connection)
            await self._hub.end()

    async def _send(self, frame: str) -> None:
        try:
            await self.send(text_data=frame)
        except Exception:  # servers raise different exceptions for a closed connection
            if self._hub:
                self._hub.closed.set()

    async def _end_with(self, hub: Hub) -> None:
        """Close the socket when the hub is closed, or when the client has been silent for too long."""
        while not hub.closed.is_set():
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await hub.closed.wait()
            except TimeoutError:
                if time.monotonic() - self._received_at > _SILENT_SECONDS:
                    break
        await self.close()


async def _close_when_refused(connection: Connection) -> None:
    """Close the hub when the client loses its access. The error is in the answer to its next negotiation."""
    await until_refused(connection)
    connection.hub.closed.set()


def _asks_for_positions(value: str) -> bool:
    return value in ("true", "1")


def _principal_of(scope: Mapping[str, Any]) -> Principal:
    principal = authenticate(scope, from_query="token")
    if principal is None or principal.kind == "session":
        raise Unauthenticated
    return principal


routes = [
    route
    for hub in settings.KOMAND_HUB_PATHS
    for route in (
        path(f"{hub}/negotiate", Negotiate.as_asgi()),
        path(hub, HubOverHttp.as_asgi()),
        path(hub, HubSocket.as_asgi()),
    )
]
