"""Splits a byte stream into the `data` payloads of server-sent events. Names, ids and comments are ignored.

Older releases of llama.cpp, and servers built on it, send an error in a field of its own: it becomes a payload, too.
"""

MAX_PAYLOAD_BYTES = 8 * 1024 * 1024


class PayloadTooLargeError(ValueError):
    """An event is larger than MAX_PAYLOAD_BYTES."""


class SseParser:
    """An incremental parser: `feed` bytes and receive the payloads that are complete.

    Accepts LF and CRLF, and servers that omit the blank line between events: a JSON object that follows a complete one
    starts a new event.
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
