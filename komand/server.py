"""The web server: Daphne with flow control, body caps and an end in time. `python -m komand.server --host … --port …`.

Daphne hands every message to the socket's buffer at once, so a client that does not read would grow this process
without bound. Here a send waits while the buffer holds too much, and a client that takes nothing is cut off.
"""

import argparse
import asyncio
import json
import logging
import re
import socket
import struct
import time
from contextlib import suppress
from typing import Any

from autobahn.exception import Disconnected
from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from django.conf import settings
from twisted.internet import defer, reactor, tcp
from twisted.logger import globalLogBeginner

from audit_app import liveness
from komand import asgi, background, sd_notify
from sessions_app.surfaces.base.bodies import BodyTooLarge
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.surface import surface_at
from sessions_app.surfaces.rest import errors
from tools_app import conf

logger = logging.getLogger(__name__)

HELD_BYTES = 128 * 1024
# What the kernel keeps for a client that does not read; left alone it would grow to several megabytes for each.
SEND_BUFFER_BYTES = 256 * 1024
STALL_SECONDS = 10.0
_SHORTEST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.002, 0.1
_STOP_SECONDS = 1.5
_REQUEST_SECONDS = 0.7
COME_BACK = 4000  # WebSocket close code: this server ends, connect again


def held_bytes(transport: Any) -> int:
    """What a Twisted transport still holds for a client that has not read it yet."""
    return int(len(transport.dataBuffer) - transport.offset + transport._tempDataLen)


async def drained(transport: Any) -> bool:
    """Wait until the transport holds little. False, and the connection cut, when nothing moved for STALL_SECONDS."""
    held, since, pause = held_bytes(transport), time.monotonic(), _SHORTEST_POLL_SECONDS
    while held > HELD_BYTES and transport.connected:
        await asyncio.sleep(pause)
        before, held = held, held_bytes(transport)
        if held < before:
            since, pause = time.monotonic(), _SHORTEST_POLL_SECONDS
        elif time.monotonic() - since > STALL_SECONDS:
            logger.info("a client that does not read was cut off")
            transport.abortConnection()
            return False
        else:
            pause = min(pause * 2, _LONGEST_POLL_SECONDS)
    return True


class EagerServer(tcp.Server):  # type: ignore[misc] # untyped
    """A connection that sends at once what the socket takes. Twisted itself first asks to be told when the socket takes
    anything, which with many viewers costs more than the sending."""

    def write(self, data: bytes) -> None:
        if self.connected and not self.disconnecting and held_bytes(self) == 0:
            sent = self.writeSomeData(data)
            if isinstance(sent, int):  # an error comes again in the regular way, which ends the connection
                data = data[sent:]
        if data:
            super().write(data)


class LeanSocket(WebSocketProtocol):  # type: ignore[misc] # untyped
    """Sends a message as one frame. Autobahn's own way costs several times as much, and refuses messages that are
    longer than those that clients may send."""

    def sendMessage(self, payload: bytes, isBinary: bool = False, **options: Any) -> None:  # noqa: N802, N803 - its names
        if self.state != self.STATE_OPEN:
            raise Disconnected("the connection is closed")
        self.transport.write(frame_head(2 if isBinary else 1, len(payload)) + payload)


def frame_head(opcode: int, length: int) -> bytes:
    """What stands before the payload of an unfragmented, unmasked frame (RFC 6455, 5.2)."""
    first = 0x80 | opcode
    if length < 126:
        return bytes((first, length))
    return struct.pack("!BBH", first, 126, length) if length < 1 << 16 else struct.pack("!BBQ", first, 127, length)


def most_bytes(target: bytes) -> int:
    """How long a body may be. target: of the request line, path and query; the body of some is a file."""
    path = target.decode("latin-1")
    surface = surface_at(path)
    is_upload = surface is not None and any(re.match(upload, path) for upload in surface.upload_paths)
    return conf.artifact_limits()[0] if is_upload else int(settings.KOMAND_MAX_BODY_BYTES)


def too_large(target: bytes) -> bytes:
    """The answer to a body that is too long, in the shape of the surface that it was meant for."""
    surface = surface_at(target.decode("latin-1"))
    error_body = surface.error_body if surface and surface.error_body else errors.error_body
    body = json.dumps(error_body(http_error_of(BodyTooLarge()))).encode()
    return (
        b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )


class CappedRequest(WebRequest):  # type: ignore[misc] # untyped
    """Refuses bodies over the cap before they are stored: by their announced length, and while they arrive."""

    _received = 0
    _refused = False

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
        super().gotLength(length)
        self._most = most_bytes(self.channel._path)  # the request itself learns its path when it is whole
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


class CappedFactory(HTTPFactory):  # type: ignore[misc] # untyped
    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802 - Twisted's name
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = CappedRequest
        return protocol


class WebServer(Server):  # type: ignore[misc] # untyped
    def __init__(self, listener: socket.socket) -> None:
        super().__init__(asgi.application, endpoints=["adopted"], server_name="komand", websocket_handshake_timeout=10)
        self._listener = listener

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT. As Daphne's own, on a socket that is open already."""
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
        globalLogBeginner.beginLoggingTo([lambda _: None], redirectStandardIO=False, discardBuffer=True)
        asyncio.set_event_loop(reactor._asyncioEventloop)
        reactor.callLater(1, self.application_checker)
        reactor.callLater(2, self.timeout_checker)
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._port = reactor.adoptStreamPort(self._listener.fileno(), self._listener.family, self.http_factory)
        self._port.transport = EagerServer
        reactor.addSystemEventTrigger("before", "shutdown", self.kill_all_applications)
        reactor.callWhenRunning(sd_notify.notify_ready)
        reactor.callWhenRunning(sd_notify.show_life, liveness.is_stuck)
        reactor.run(installSignalHandlers=True)

    async def handle_reply(self, protocol: Any, message: Any) -> None:
        """One message of the application to the client. Waits while the client is slow."""
        transport = protocol.transport
        if transport is None or not hasattr(transport, "dataBuffer") or await drained(transport):
            with suppress(Disconnected):  # the client left between our look and the send; its disconnect is on the way
                await super().handle_reply(protocol, message)

    def kill_all_applications(self) -> Any:
        """At the end: nothing new is taken, sockets are told to come back, requests under way have a moment to be
        answered, whatever waits for longer is cancelled; all within _REQUEST_SECONDS + _STOP_SECONDS."""
        return defer.Deferred.fromFuture(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        self._port.stopListening()
        applications, requests = [], []
        for protocol, details in list(self.connections.items()):
            is_socket = isinstance(protocol, self.ws_factory.protocol)
            if is_socket and protocol.state == protocol.STATE_OPEN:
                protocol.serverClose(code=COME_BACK)
            if "application_instance" in details:
                applications.append(details["application_instance"])
                requests += [] if is_socket else [details["application_instance"]]
        await asyncio.sleep(0)
        if requests:
            await asyncio.wait(requests, timeout=_REQUEST_SECONDS)
        for task in applications:
            task.cancel()
        ending = [asyncio.ensure_future(background.stop()), *applications]
        await asyncio.wait(ending, timeout=_STOP_SECONDS)


def open_listener(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError when the address is in use or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)


def main() -> None:
    parser = argparse.ArgumentParser(prog="komand.server", description="Komand's web server.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--fd", type=int, help="serve on this open listening socket instead")
    options = parser.parse_args()
    listener = socket.socket(fileno=options.fd) if options.fd is not None else open_listener(options.host, options.port)
    WebServer(listener).run()


if __name__ == "__main__":
    main()
