"""A relay in a thread of its own: it takes connections at a free port of this machine and carries their bytes on."""

import asyncio
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from ssl import SSLContext
from types import TracebackType
from typing import Self

_PIECE = 65536


class Relay(ABC):
    """A relay that runs while its context lasts.

    port: where it listens.
    context: of TLS with its clients; None for none.
    is_open: while it is not set, what has come is held back.
    """

    port = 0
    context: SSLContext | None = None

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self.is_open = asyncio.Event()
        self.is_open.set()

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.context)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):  # the end of the relay; asyncio would print it
            await self._carry(reader, writer)

    @abstractmethod
    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry the bytes of one connection."""

    async def copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy until the end of one side, then end the other."""
        try:
            with suppress(OSError):
                while data := await reader.read(_PIECE):
                    await self.is_open.wait()
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.close()

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
