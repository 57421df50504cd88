"""A minimal HTTP/1.1 server for fakes: fast, with keep-alive and faults on demand."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


@dataclass
class HttpRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Response:
    """A chunked response: a head, then pieces, each of which is sent at once."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def head(self, status: int, headers: dict[str, str], *, length: int | None = None) -> None:
        framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", framing]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._connection.transport.write("\r\n".join([*lines, "", ""]).encode())

    def piece(self, data: bytes) -> None:
        self._connection.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        self._connection.transport.write(b"0\r\n\r\n")

    def whole(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.head(status, headers, length=len(body))
        self._connection.transport.write(body)

    def drop(self) -> None:
        """Abort the connection, as a crash does."""
        self._connection.transport.abort()

    async def drain(self) -> None:
        """Wait while the client reads more slowly than we write."""
        await self._connection.writable.wait()


Handler = Callable[[HttpRequest, Response], Awaitable[None]]


class Connection(asyncio.Protocol):
    """One client connection; its requests are answered one after the other."""

    transport: asyncio.Transport

    def __init__(self, handle: Handler, lost_early: Callable[[], None], transports: set[asyncio.Transport]) -> None:
        """lost_early: called when the client goes away before its answer is complete; transports: of open connections.

        The event loop makes a connection before it has its transport, so only `connection_made` may add one.
        """
        self._handle = handle
        self._lost_early = lost_early
        self._transports = transports
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._transports.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.writable.set()
        if self._task and not self._task.done():
            self._lost_early()
            self._task.cancel()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        method, path, _ = first.split(" ", 2)
        request = HttpRequest(method, path, headers, rest[:length])
        self._task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: HttpRequest) -> None:
        try:
            await self._handle(request, Response(self))
        except Exception:
            self.transport.abort()  # a fault of the fake must not look like a silent model
            raise
