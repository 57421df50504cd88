"""A fake WebSocket server on 127.0.0.1, in its own thread. The fake platforms with connections of their own use it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

Handler = Callable[[ServerConnection], Awaitable[None]]


class SocketServer:
    """A server. handle: serves one connection, and closes it when it returns."""

    def __init__(self, handle: Handler) -> None:
        self.port = 0
        self.connections = 0
        self._handle = handle
        self._open: set[ServerConnection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fake-sockets", daemon=True)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._loop
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def cut(self) -> None:
        """Abort all connections, as a network does."""
        assert self._loop
        for connection in list(self._open):
            self._loop.call_soon_threadsafe(connection.transport.abort)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with serve(self._connected, "127.0.0.1", 0, close_timeout=0.2) as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            self._started.set()
            await self._stopping.wait()
            for connection in list(self._open):
                connection.transport.abort()

    async def _connected(self, connection: ServerConnection) -> None:
        self.connections += 1
        self._open.add(connection)
        try:
            with suppress(ConnectionClosed):
                await self._handle(connection)
        finally:
            self._open.discard(connection)
