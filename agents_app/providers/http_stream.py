"""Reads the body of a model response within the call's time limits, as batches of JSON payloads."""

import asyncio
from collections.abc import AsyncIterator

import httpx2

from agents_app.providers import errors
from agents_app.providers.base import ProviderError
from agents_app.types import ModelRequest

# Errors of an incomplete body.
BROKEN_BODY = (httpx2.TransportError, httpx2.DecodingError)
BROKE_OFF = "closed the connection in the middle of its response"
_END_SECONDS = 0.2  # to wait for the end of the body after the last event, so that the connection can be reused
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024


class Clock:
    """The time limits of a call: between two pieces, and in total."""

    def __init__(self, request: ModelRequest, endpoint: errors.Endpoint) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle_seconds = request.idle_seconds
        self._total_seconds = request.total_seconds
        self._ends_at = self._loop.time() + request.total_seconds
        self._endpoint = endpoint

    def wait(self) -> asyncio.Timeout:
        """Return the time-out for a single wait for the server. Must not enclose a `yield`."""
        return asyncio.timeout_at(min(self._loop.time() + self._idle_seconds, self._ends_at))

    def fault(self) -> ProviderError:
        """Return the error of the limit that a wait exceeded."""
        if self._loop.time() >= self._ends_at:
            return errors.too_slow(self._endpoint, self._total_seconds)
        return errors.silent(self._endpoint, self._idle_seconds)


class AnswerReader:
    """The body of a response: a stream of events, or a single JSON object from a server that does not stream."""

    def __init__(self, body: AsyncIterator[bytes], *, is_stream: bool, endpoint: errors.Endpoint, clock: Clock) -> None:
        """is_stream: by the content type; otherwise the first bytes decide."""
        self._body = body
        self._endpoint = endpoint
        self._clock = clock
        self._events = SseParser()
        self._whole: bytearray | None = None
        self._knows_form = is_stream
        self._is_over = False

    async def next_payloads(self) -> list[bytes] | None:
        """Return the payloads that have arrived, perhaps none; None at the end. Raises ProviderError."""
        if self._is_over:
            return None
        received = await self._receive()
        try:
            if received is None:
                self._is_over = True
                return self._events.finish() if self._whole is None else [bytes(self._whole)]
            if not self._knows_form:
                self._recognise(received)
            return self._take(received)
        except PayloadTooLargeError as error:
            raise errors.too_large(self._endpoint) from error

    async def finish(self) -> None:
        """Wait briefly for the end of the body."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                while await anext(self._body, None) is not None:
                    pass
        except (TimeoutError, *BROKEN_BODY):
            return

    async def _receive(self) -> bytes | None:
        try:
            async with self._clock.wait():
                return await anext(self._body, None)
        except TimeoutError as error:
            raise self._clock.fault() from error
        except BROKEN_BODY as error:
            raise errors.stream_cut(self._endpoint, BROKE_OFF) from error

    def _recognise(self, received: bytes) -> None:
        start = received.lstrip()[:1]
        if not start:
            return
        self._knows_form = True
        if start == b"<":
            raise errors.not_a_model_server(self._endpoint)
        if start in (b"{", b"["):
            self._whole = bytearray()

    def _take(self, received: bytes) -> list[bytes]:
        if self._whole is None:
            return self._events.feed(received)
        self._whole += received
        if len(self._whole) > MAX_PAYLOAD_BYTES:
            raise PayloadTooLargeError
        return []


class PayloadTooLargeError(ValueError):
    """An event is larger than MAX_PAYLOAD_BYTES."""


class SseParser:
    """An incremental parser of server-sent events: `feed` bytes and receive the `data` payloads that are complete.

    Names, ids and comments are ignored. Older releases of llama.cpp, and servers built on it, send an error in a field
    of its own: it becomes a payload, too. Accepts LF and CRLF, and servers that omit the blank line between events: a
    JSON object that follows a complete one starts a new event.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, received: bytes) -> list[bytes]:
        """Return the payloads that these bytes complete, in order. Raises PayloadTooLargeError."""
        payloads: list[bytes] = []
        if b"\n" in received:
            lines = b"".join([*self._rest, received]).split(b"\n")
            received = lines.pop()
            self._rest, self._rest_bytes = [], 0
            for line in lines:
                self._take(line, payloads)
        self._rest.append(received)
        self._rest_bytes += len(received)
        if self._rest_bytes > MAX_PAYLOAD_BYTES:
            raise PayloadTooLargeError
        return payloads

    def finish(self) -> list[bytes]:
        """Return the payload of a last event without its blank line, if any."""
        return self.feed(b"\n\n")

    def _take(self, line: bytes, payloads: list[bytes]) -> None:
        line = line.removesuffix(b"\r")
        if line.startswith(b"data:"):
            payload = line[6:] if line.startswith(b"data: ") else line[5:]
            if self._data and self._data[-1].endswith(b"}") and payload.startswith((b"{", b"[")):
                self._close(payloads)
            self._data.append(payload)
            self._data_bytes += len(payload)
            if self._data_bytes > MAX_PAYLOAD_BYTES:
                raise PayloadTooLargeError
        elif not line:
            self._close(payloads)
        elif line.startswith(b"error:"):
            self._close(payloads)
            payloads.append(b'{"error":' + line[6:] + b"}")

    def _close(self, payloads: list[bytes]) -> None:
        if self._data:
            payloads.append(b"\n".join(self._data))
            self._data, self._data_bytes = [], 0
