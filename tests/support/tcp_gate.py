"""A way to a server on a Unix socket that a test can close: what was sent then arrives nowhere, as in a partition."""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_PIECE = 65536


class TcpGate:
    """A gate at a free port of this machine. target: the socket of the server."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-gate", daemon=True)
        self._open = asyncio.Event()
        self._open.set()

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._carry, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(20)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def close_way(self) -> None:
        """Hold back everything from now on, in both directions."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def open_way(self) -> None:
        """Send on what was held back."""
        self._loop.call_soon_threadsafe(self._open.set)

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(str(self._target))
        await asyncio.gather(self._copy(reader, to_server), self._copy(from_server, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
