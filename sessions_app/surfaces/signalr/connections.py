"""The connections of this process: tokens given out at negotiation, and those that poll or stream over plain HTTP.

A client of plain HTTP comes with many requests; all of them have to reach the process that has its connection, which
a load balancer does by the `id` in their address.
"""

import asyncio
import secrets
import time
from dataclasses import dataclass, field

from audit_app.kernel.errors import Conflict, NotFound
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.signalr.hub import Hub

UNUSED_SECONDS = 15.0  # after which a token nobody came with is void
POLL_SECONDS = 90.0  # that a poll waits: clients give up after 100
GONE_SECONDS = 30.0  # without a poll: the client is gone
_MOST_WAITING = 1_000  # frames that a client has not fetched


@dataclass
class Connection:
    """token: secret of the client; connection_id: what it may show; is_open: a transport was chosen. waiting: frames
    that the client of plain HTTP has not fetched yet; polls: its requests that wait for some."""

    principal: Principal
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    connection_id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    is_open: bool = False
    waiting: list[str] = field(default_factory=list)
    has_frames: asyncio.Event = field(default_factory=asyncio.Event)
    seen_at: float = field(default_factory=time.monotonic)
    polls: int = 0
    _newest: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.hub = Hub(self.principal, self.queue)

    async def queue(self, frame: str) -> None:
        """Keep a frame until the client fetches it; who never does is let go."""
        if len(self.waiting) >= _MOST_WAITING:
            self.hub.closed.set()
            return
        self.waiting.append(frame)
        self.has_frames.set()

    async def take(self, seconds: float) -> str:
        """What waits, as soon as something does; empty when nothing came in time or the connection ended, and for a
        request that is not the newest: its client has lost it, or it would not ask again."""
        older, self._newest = self._newest, asyncio.Event()
        older.set()
        is_older = self._newest
        if not self.waiting and not self.hub.closed.is_set():
            self.has_frames.clear()
            ends = {asyncio.ensure_future(end.wait()) for end in (self.has_frames, self.hub.closed, is_older)}
            try:
                await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()
        if is_older.is_set():
            return ""
        frames_now, self.waiting = self.waiting, []
        return "".join(frames_now)


_connections: dict[str, Connection] = {}


def negotiate(principal: Principal) -> Connection:
    """A new connection that its client has to come for soon."""
    _forget_unused()
    connection = Connection(principal)
    _connections[connection.token] = connection
    return connection


def find(token: str, principal: Principal) -> Connection:
    """The caller's own connection. Raises NotFound."""
    connection = _connections.get(token)
    if connection is None or connection.principal.user.pk != principal.user.pk:
        raise NotFound("There is no such connection. Negotiate again.", code="unknown_connection")
    connection.seen_at = time.monotonic()
    return connection


def claim(token: str, principal: Principal) -> Connection:
    """The caller's connection for a transport that nobody has opened yet. Raises NotFound, Conflict."""
    connection = find(token, principal)
    if connection.is_open:
        raise Conflict("This connection is in use. Negotiate again.", code="connection_in_use")
    connection.is_open = True
    return connection


def forget(connection: Connection) -> None:
    _connections.pop(connection.token, None)


def _forget_unused() -> None:
    oldest = time.monotonic() - UNUSED_SECONDS
    for token in [
        token for token, connection in _connections.items() if not connection.is_open and connection.seen_at < oldest
    ]:
        del _connections[token]
