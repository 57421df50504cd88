"""The web server: Daphne with flow control, body limits and a timely shutdown. `python -m komand.server --help`.

Daphne passes every message to the socket's buffer at once, so a client that does not read would grow this process
without limit. Here a send waits while the buffer is full, and a client that reads nothing is disconnected.
"""

import argparse
import asyncio
import gc
import json
import logging
import signal
import socket
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from autobahn.exception import Disconnected
from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from django.conf import settings
from twisted.internet import defer, reactor, tcp
from twisted.logger import globalLogBeginner
from twisted.web.http import HTTPChannel

from audit_app.kernel import liveness
from komand import asgi, background, schema_check, sd_notify, server_log, warm_up
from komand.web_shutdown import Shutdown
from sessions_app.surfaces.base.bodies import BodyTooLarge
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.surface import most_body_bytes, surface_at
from sessions_app.surfaces.rest import errors

logger = logging.getLogger(__name__)

HELD_BYTES = 128 * 1024
# The kernel's buffer for a client that does not read; by default it would grow to several megabytes each.
SEND_BUFFER_BYTES = 256 * 1024
STALL_SECONDS = 10.0
BACKLOG = 1024
IDLE_SECONDS = 60  # a connection between two requests
_SHORTEST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.002, 0.1


def held_bytes(transport: Any) -> int:
    """Return the number of bytes that a Twisted transport buffers for its client."""
    return int(len(transport.dataBuffer) - transport.offset + transport._tempDataLen)


async def drained(transport: Any) -> bool:
    """Wait until the transport's buffer is small. If nothing moves for STALL_SECONDS, disconnect and return False."""
    held, since, pause = held_bytes(transport), time.monotonic(), _SHORTEST_POLL_SECONDS
    while held > HELD_BYTES and transport.connected:
        await asyncio.sleep(pause)
        before, held = held, held_bytes(transport)
        if held < before:
            since, pause = time.monotonic(), _SHORTEST_POLL_SECONDS
        elif time.monotonic() - since > STALL_SECONDS:
            logger.info("disconnected a client that does not read")
            transport.abortConnection()
            return False
        else:
            pause = min(pause * 2, _LONGEST_POLL_SECONDS)
    return True


class EagerServer(tcp.Server):  # type: ignore[misc] # untyped
    """A connection that writes to the socket at once. Twisted would wait for the socket to be writable first, which
    costs more than the write itself if there are many viewers."""

    def write(self, data: bytes) -> None:
        if self.connected and not self.disconnecting and held_bytes(self) == 0:
            sent = self.writeSomeData(data)
            if isinstance(sent, int):  # an error is raised again by the regular write, which ends the connection
                data = data[sent:]
        if data:
            super().write(data)

    def writeSequence(self, iovec: Iterable[bytes]) -> None:  # noqa: N802 - Twisted's name
        """Write in one piece what Twisted passes in several, such as a chunk of a streamed HTTP response."""
        self.write(b"".join(iovec))


class LeanSocket(WebSocketProtocol):  # type: ignore[misc] # untyped
    """Sends a message as one frame, at a fraction of the cost of Autobahn's method, which also refuses to send messages
    longer than those that clients may send."""

    def sendMessage(self, payload: bytes, isBinary: bool = False, **options: Any) -> None:  # noqa: N802, N803 - its names
        if self.state != self.STATE_OPEN:
            raise Disconnected("the connection is closed")
        self.transport.write(frame_head(2 if isBinary else 1, len(payload)) + payload)


def frame_head(opcode: int, length: int) -> bytes:
    """Return the header of an unfragmented, unmasked frame (RFC 6455, section 5.2)."""
    first = 0x80 | opcode
    if length < 126:
        return bytes((first, length))
    return struct.pack("!BBH", first, 126, length) if length < 1 << 16 else struct.pack("!BBQ", first, 127, length)


def most_bytes(target: bytes) -> int:
    """Return the maximum length of a body. target: path and query of the request line; uploads may be longer."""
    return most_body_bytes(target.decode("latin-1"))


def too_large(target: bytes) -> bytes:
    """Return the 413 response to a body that is too long, with the error body of the surface at the target."""
    surface = surface_at(target.decode("latin-1"))
    error_body = surface.error_body if surface and surface.error_body else errors.error_body
    body = json.dumps(error_body(http_error_of(BodyTooLarge()))).encode()
    return (
        b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )


class CappedRequest(WebRequest):  # type: ignore[misc] # untyped
    """A request that refuses a body over the limit: by its Content-Length, and while it arrives."""

    _received = 0
    _refused = False

    def handle_reply(self, message: dict[str, Any]) -> None:
        if message.get("type") == "http.response.start" and self.server.is_stopping and self.channel is not None:
            self.channel.persistent = False
            self.setHeader(b"connection", b"close")
        super().handle_reply(message)

    def refuse_unanswered(self) -> None:
        """Answer 503 if no response has begun, before the process ends."""
        if not self._response_started:
            self.basic_error(503, b"Service Unavailable", "The server restarts. Send the request again.")

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
        super().gotLength(length)
        self._most = most_bytes(self.channel._path)  # the request has no path before it is complete
        if length is not None and length > self._most:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        self._received += len(data)
        if self._received > self._most:
            self._refuse()
        elif not self._refused:
            super().handleContentChunk(data)

    def _refuse(self) -> None:
        if not self._refused:
            self._refused = True
            self.transport.write(too_large(self.channel._path))
            self.transport.loseConnection()


class TimedChannel(HTTPChannel):  # type: ignore[misc] # untyped
    """A connection whose requests must arrive in time. Twisted's own limit begins anew with each byte, so that a client
    which sends one a minute would keep its connection for ever."""

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        super().connectionMade()
        self.factory.fresh[self] = time.monotonic()
        self.setTimeout(settings.KOMAND_HEADER_SECONDS)

    def resetTimeout(self) -> None:  # noqa: N802 - Twisted's name; called for each piece of data
        if self in self.factory.idle:
            self.factory.idle.discard(self)
            self.setTimeout(settings.KOMAND_HEADER_SECONDS)

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        self.factory.fresh.pop(self, None)
        self.factory.idle.discard(self)
        super().connectionLost(reason)

    def allHeadersReceived(self) -> None:  # noqa: N802 - Twisted's name
        self.factory.fresh.pop(self, None)
        self.setTimeout(settings.KOMAND_BODY_SECONDS)
        super().allHeadersReceived()

    def requestDone(self, request: Any) -> None:  # noqa: N802 - Twisted's name
        self.factory.idle.add(self)
        self._savedTimeOut = IDLE_SECONDS
        super().requestDone(request)


class CappedFactory(HTTPFactory):  # type: ignore[misc] # untyped
    protocol = TimedChannel

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.fresh: dict[Any, float] = {}  # connections without a request so far, and when they were accepted
        self.idle: set[Any] = set()  # connections between two requests

    def log(self, request: Any) -> None:
        """Write nothing: Twisted would format a line for each request that `server_log` drops."""

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802 - Twisted's name
        protocol = super().buildProtocol(addr)
        # Twisted would parse forms in memory, beside Django, and refuse faulty ones itself.
        protocol.requestFactory = partial(CappedRequest, parsePOSTFormSubmission=False)
        return protocol


class WebServer(Server):  # type: ignore[misc] # untyped
    """The server of one web process.

    listener: a bound socket, listening or not.
    is_shared: other processes accept on the listener, too.
    """

    is_stopping = False

    def __init__(self, listener: socket.socket, *, is_shared: bool) -> None:
        super().__init__(asgi.application, endpoints=["adopted"], server_name="komand", websocket_handshake_timeout=10)
        self.listener, self.is_shared = listener, is_shared

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT. Replaces Daphne's method to serve on a socket that is open already."""
        self.connections: dict[Any, dict[str, Any]] = {}
        self.http_factory = CappedFactory(self)
        self.ws_factory = WebSocketFactory(self, server=self.server_name)
        self.ws_factory.protocol = LeanSocket
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,  # komand.websocket_origins decides
            openHandshakeTimeout=self.websocket_handshake_timeout,
            maxMessagePayloadSize=self.websocket_max_message_size,
            maxFramePayloadSize=self.websocket_max_frame_size,
        )
        globalLogBeginner.beginLoggingTo([server_log.Observer()], redirectStandardIO=False, discardBuffer=True)
        asyncio.set_event_loop(reactor._asyncioEventloop)
        reactor.callLater(1, self.application_checker)
        reactor.callLater(2, self.timeout_checker)
        self.listener.setblocking(False)
        self.listener.listen(BACKLOG)  # the supervisor has only bound it
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self.port = reactor.adoptStreamPort(self.listener.fileno(), self.listener.family, self.http_factory)
        self.port.transport = EagerServer
        reactor.addSystemEventTrigger("before", "shutdown", self.kill_all_applications)
        reactor.callWhenRunning(sd_notify.notify_ready)
        reactor.callWhenRunning(sd_notify.show_life, liveness.is_stuck)
        reactor.callLater(0, background.ensure_started)  # on the event loop, which does not run yet
        reactor.run(installSignalHandlers=True)

    async def handle_reply(self, protocol: Any, message: Any) -> None:
        """Send one message of the application to the client. Waits while the client is slow."""
        transport = protocol.transport
        if transport is None or not hasattr(transport, "dataBuffer") or await drained(transport):
            with suppress(Disconnected):  # the client left since `drained` returned; its disconnect event follows
                await super().handle_reply(protocol, message)

    def kill_all_applications(self) -> Any:
        """Shut down as `web_shutdown.Shutdown` does."""
        self.is_stopping = True
        shutdown = Shutdown(self, is_hurried=reactor._exitSignal == signal.SIGINT)
        return defer.Deferred.fromFuture(asyncio.ensure_future(shutdown.run()))


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises OSError if the address is in use or not on this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def main() -> None:
    parser = argparse.ArgumentParser(prog="komand.server", description="Komand's web server.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--fd", type=int, help="serve on this open socket instead")
    options = parser.parse_args()
    schema_check.require()
    warm_up.warm_up()
    gc.collect()
    gc.freeze()  # what is loaded stays: a full collection would look through it, and stop the process for 0.1 s
    listener = socket.socket(fileno=options.fd) if options.fd is not None else open_listener(options.host, options.port)
    WebServer(listener, is_shared=options.fd is not None).run()


if __name__ == "__main__":
    main()
