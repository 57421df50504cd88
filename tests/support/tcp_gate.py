"""A way to a server on a Unix socket that a test can close: what is sent then arrives nowhere, as in a partition."""

import asyncio
from pathlib import Path

from tests.support.relay import Relay


class TcpGate(Relay):
    """A gate at a free port of this machine. target: the socket of the server."""

    def __init__(self, target: Path) -> None:
        super().__init__()
        self._target = target

    def close_way(self) -> None:
        """Hold back everything from now on, in both directions."""
        self._loop.call_soon_threadsafe(self.is_open.clear)

    def open_way(self) -> None:
        """Send on what was held back."""
        self._loop.call_soon_threadsafe(self.is_open.set)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(str(self._target))
        await asyncio.gather(self.copy(reader, to_server), self.copy(from_server, writer))
