"""The load client's WebSocket: the parts of RFC 6455 that a viewer needs, at a few microseconds a message."""

import asyncio
import base64
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Self

from benchmarks.wire import Address, Refused, head, parse_head

_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10
_OPEN_SECONDS = 30

OnText = Callable[[bytes, float], None]


class FrameReader:
    """Splits received bytes into messages: (opcode, payload). Server frames are not masked (RFC 6455, section 5.1)."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._opcode = 0
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._buffer += data
        while (frame := self._next_frame()) is not None:
            is_last, opcode, payload = frame
            if opcode >= _CLOSE:
                yield opcode, payload
                continue
            self._opcode = opcode or self._opcode
            self._parts.append(payload)
            if is_last:
                whole, self._parts = b"".join(self._parts), []
                yield self._opcode, whole

    def _next_frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length, start = buffer[1] & 0x7F, 2
        if length >= 126:
            start = 4 if length == 126 else 10
            if len(buffer) < start:
                return None
            length = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + length:
            return None
        first, payload = buffer[0], bytes(buffer[start : start + length])
        del buffer[: start + length]
        return bool(first & 0x80), first & 0x0F, payload


def client_frame(opcode: int, payload: bytes) -> bytes:
    """Return a masked frame (RFC 6455, section 5.3). The mask is zero: no proxy is in between."""
    length = len(payload)
    if length < 126:
        size = bytes([0x80 | length])
    elif length < 65536:
        size = b"\xfe" + struct.pack("!H", length)
    else:
        size = b"\xff" + struct.pack("!Q", length)
    return bytes([0x80 | opcode]) + size + b"\0\0\0\0" + payload


class WebSocket(asyncio.Protocol):
    """One open WebSocket. Calls `on_text(message, time of arrival by the monotonic clock)` for each text message."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._reader = FrameReader()
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.close_code: int | None = None

    @classmethod
    async def open(cls, address: Address, path: str, headers: Mapping[str, str], on_text: OnText) -> Self:
        """Connect. Raises Refused, OSError or TimeoutError."""
        async with asyncio.timeout(_OPEN_SECONDS):
            _, socket = await asyncio.get_running_loop().create_connection(
                lambda: cls(on_text), address.host, address.port
            )
            socket._write(head(address, "GET", path, {**headers, **upgrade_headers()}))
            await socket._opened
        return socket

    def send_text(self, message: bytes) -> None:
        self._write(client_frame(_TEXT, message))

    def close(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._write(client_frame(_CLOSE, struct.pack("!H", 1000)))
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._opened.done():
            self._opened.set_exception(Refused("the connection was closed before it was open"))
        self.close_code = self.close_code or 1006

    def data_received(self, data: bytes) -> None:
        if not self._opened.done():
            data = self._read_head(data)
        at = time.monotonic()
        for opcode, payload in self._reader.feed(data):
            if opcode == _TEXT:
                self._on_text(payload, at)
            elif opcode == _PING:
                self._write(client_frame(_PONG, payload))
            elif opcode == _CLOSE:
                self.close_code = int.from_bytes(payload[:2], "big") if payload else 1005

    def _read_head(self, data: bytes) -> bytes:
        """Remove the response to the handshake. Return the bytes that follow it."""
        self._head += data
        top, separator, rest = self._head.partition(b"\r\n\r\n")
        if not separator:
            return b""
        status, _ = parse_head(top)
        if status == 101:
            self._opened.set_result(None)
            return rest
        self._opened.set_exception(Refused(f"the server answers {status}: {rest[:200]!r}"))
        return b""

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)


def upgrade_headers() -> dict[str, str]:
    key = base64.b64encode(os.urandom(16)).decode()
    return {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-key": key, "sec-websocket-version": "13"}
