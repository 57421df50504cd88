"""The hub connections of this process: negotiated tokens, and the frames of clients that poll or stream over HTTP.

Over plain HTTP one connection takes many requests, which all have to reach the process that holds it: a load balancer
routes them by the `id` in their URL.
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field

from audit_app.kernel.errors import Conflict, NotFound
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.signalr.hub import Hub

UNUSED_SECONDS = 15.0  # after which an unused token expires
POLL_SECONDS = 90.0  # duration of a poll without frames: clients give up after 100 seconds
GONE_SECONDS = 30.0  # without a poll, after which a client is considered gone
_MOST_WAITING = 1_000  # queued frames


@dataclass
class Connection:
    """A connection of one client.

    token: secret that identifies the connection in URLs.
    connection_id: public id.
    is_open: whether a transport has been chosen.
    waiting: frames that a client of plain HTTP has not fetched yet.
    polls: number of its requests that wait for frames.
    issued_token: access token that the negotiation issued for an API key. The connection ends with the key, and the
        token remains valid for its requests until then.
    """

    opened_by: InitVar[Principal]
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    connection_id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    is_open: bool = False
    waiting: list[str] = field(default_factory=list)
    has_frames: asyncio.Event = field(default_factory=asyncio.Event)
    seen_at: float = field(default_factory=time.monotonic)
    polls: int = 0
    issued_token: str = ""
    _is_replaced: asyncio.Event = field(default_factory=asyncio.Event)  # of the newest request

    session_id = None  # it follows several
    is_endless = True

    def __post_init__(self, opened_by: Principal) -> None:
        self.hub = Hub(opened_by, self.queue)

    @property
    def principal(self) -> Principal:
        """The principal with whose credential the connection ends: of the API key, or of the newest request."""
        return self.hub.principal

    def extends(self, credential: str) -> bool:
        """Return whether a credential is the issued token, and the connection is open."""
        is_issued = hmac.compare_digest(credential.encode(), self.issued_token.encode())
        return bool(self.issued_token) and self.is_open and is_issued

    async def queue(self, frame: str) -> None:
        """Keep a frame until the client fetches it. Too many of them close the connection."""
        if len(self.waiting) >= _MOST_WAITING:
            self.hub.closed.set()
            return
        self.waiting.append(frame)
        self.has_frames.set()

    async def take(self, seconds: float) -> str:
        """Return the queued frames, after waiting for the first at most so long.

        Empty if none came, if the connection ended, or if a newer request replaced this one: its client has lost it.
        TransportProtocols.md, "Long Polling (Server-to-Client only)".
        """
        self._is_replaced.set()
        is_replaced = self._is_replaced = asyncio.Event()
        if not self.waiting and not self.hub.closed.is_set():
            self.has_frames.clear()
            await _wait_for_any((self.has_frames, self.hub.closed, is_replaced), seconds)
        if is_replaced.is_set():
            return ""
        frames, self.waiting = self.waiting, []
        return "".join(frames)


async def _wait_for_any(events: Iterable[asyncio.Event], seconds: float) -> None:
    ends = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()


_connections: dict[str, Connection] = {}


def negotiate(principal: Principal) -> Connection:
    """Return a new connection. It expires unless its client opens a transport soon."""
    oldest = time.monotonic() - UNUSED_SECONDS
    for connection in [*_connections.values()]:
        if not connection.is_open and connection.seen_at < oldest:
            forget(connection)
    connection = Connection(principal)
    _connections[connection.token] = connection
    return connection


def find_extended(token: str, credential: str) -> Connection | None:
    """Return the open connection of a token whose requests are admitted with that credential even after it expired."""
    connection = _connections.get(token)
    return connection if connection is not None and connection.extends(credential) else None


def find(token: str, principal: Principal) -> Connection:
    """Return a connection of the caller. Raises NotFound."""
    connection = _connections.get(token)
    if connection is None or connection.principal.user.pk != principal.user.pk:
        raise NotFound("There is no such connection. Negotiate again.", code="unknown_connection")
    connection.seen_at = time.monotonic()
    if not connection.issued_token:
        connection.hub.principal = principal
    return connection


def claim(token: str, principal: Principal) -> Connection:
    """Return a connection of the caller that has no transport yet, and open it. Raises NotFound, Conflict."""
    connection = find(token, principal)
    if connection.is_open:
        raise Conflict("This connection is in use. Negotiate again.", code="connection_in_use")
    connection.is_open = True
    return connection


def forget(connection: Connection) -> None:
    _connections.pop(connection.token, None)
