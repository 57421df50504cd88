"""A way to a server that a test can close: what is sent then arrives nowhere, as in a partition."""

import asyncio
from pathlib import Path

from tests.support.relay import Relay


class TcpGate(Relay):
    """A gate at a free port of this machine. target: the Unix socket of the server, or its port."""

    def __init__(self, target: Path | int) -> None:
        super().__init__()
        self._target = target

    def close_way(self) -> None:
        """Hold back everything from now on, in both directions."""
        self._loop.call_soon_threadsafe(self.is_open.clear)

    def open_way(self) -> None:
        """Send on what was held back."""
        self._loop.call_soon_threadsafe(self.is_open.set)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await self._connect()
        await asyncio.gather(self.copy(reader, to_server), self.copy(from_server, writer))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, int):
            return await asyncio.open_connection("127.0.0.1", self._target)
        return await asyncio.open_unix_connection(str(self._target))
