"""The side of the process `sockets`: connections to platforms, opened on behalf of the runs workers of this host.

Each connection ends with the worker that asked for it. Imports no Django, and has neither the database nor its keys:
a worker sends the settings and secrets of an account with the request to connect.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sessions_app.channels.connections import wire
from sessions_app.platforms.base import ChannelAdapter
from sessions_app.platforms.link import ConnectionLost, NeedsAttention, Received

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 5.0
_LOOK_SECONDS = 1.0
# Adapters report a heartbeat for each message; reporting one a second is enough to notice silence.
_HEARTBEAT_SECONDS = 1.0


class Receiver:
    """The connections of this process."""

    def __init__(self) -> None:
        self._workers: dict[asyncio.Task[None], _Worker] = {}

    async def run(self, path: Path, *, idle_seconds: float | None = None) -> None:
        """Serve workers at a Unix socket until cancelled, or until none has had a connection for `idle_seconds`.

        A socket that another process has left or still serves at this path is replaced: that one keeps its workers.
        """
        server = await asyncio.start_unix_server(self._serve, path)
        loop = asyncio.get_running_loop()
        needed_at = loop.time()
        try:
            while idle_seconds is None or loop.time() - needed_at < idle_seconds:
                if any(worker.connections for worker in self._workers.values()):
                    needed_at = loop.time()
                await asyncio.sleep(_LOOK_SECONDS if idle_seconds is None else min(_LOOK_SECONDS, idle_seconds))
        finally:
            server.close()
            for task in self._workers:
                task.cancel()
            if self._workers:
                await asyncio.wait([*self._workers], timeout=_CLOSE_SECONDS + 1)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        worker = _Worker(wire.Wire(reader, writer))
        task = asyncio.create_task(worker.run())
        self._workers[task] = worker
        task.add_done_callback(self._workers.pop)


class _Worker:
    """A runs worker: the connections that it asked for, by number."""

    def __init__(self, to_worker: wire.Wire) -> None:
        self._wire = to_worker
        self.connections: dict[int, _Connection] = {}

    async def run(self) -> None:
        """Follow the worker's requests until it ends."""
        try:
            async for frame in self._wire.frames():
                self._follow(frame, frame["number"])
        finally:
            tasks = [connection.task for connection in self.connections.values()]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
            self._wire.close()

    def _follow(self, frame: Mapping[str, Any], number: int) -> None:
        connection = self.connections.get(number)
        if frame["kind"] == "open":
            self.connections[number] = opened = _Connection(self._wire, number, frame)
            opened.task.add_done_callback(lambda _: self.connections.pop(number, None))
        elif connection is not None and frame["kind"] == "stored":
            connection.link.note_stored()
        elif connection is not None:
            connection.task.cancel()


class _Connection:
    """An adapter that listens. Reports its end to the worker, whatever it is, also if it is closed before it starts."""

    def __init__(self, to_worker: wire.Wire, number: int, frame: Mapping[str, Any]) -> None:
        self._wire, self._number = to_worker, number
        self._ending: ConnectionLost | NeedsAttention = ConnectionLost("The process sockets has ended.")
        self.link = RemoteLink(to_worker, number, frame["cursor"])
        self.task = asyncio.create_task(self._run(frame))
        self.task.add_done_callback(self._report_end)

    def _report_end(self, _: asyncio.Task[None]) -> None:
        self._wire.send("ended", self._number, **wire.dump_ending(self._ending))

    async def _run(self, frame: Mapping[str, Any]) -> None:
        adapter: ChannelAdapter | None = None
        try:
            adapter = wire.find_adapter(frame["adapter"])(wire.load_account(frame["account"]))
            await adapter.listen(self.link)
            self._ending = ConnectionLost("The platform ended the connection.")
        except (ConnectionLost, NeedsAttention) as error:
            self._ending = error
        except Exception as error:
            logger.exception("%s: receiving failed", frame["account"]["account_id"])
            self._ending = ConnectionLost(f"Receiving failed ({type(error).__name__}).")
        finally:
            if adapter is not None:
                await _close(adapter)


class RemoteLink:
    """The adapter's end of a connection; sends its reports to the worker. See `sessions_app.platforms.link.Link`."""

    def __init__(self, to_worker: wire.Wire, number: int, cursor: str) -> None:
        self._wire, self._number, self._cursor = to_worker, number, cursor
        self._loop = asyncio.get_running_loop()
        self._beat_at: float | None = None
        self._delivering = asyncio.Lock()
        self._stored = asyncio.Event()

    @property
    def cursor(self) -> str:
        return self._cursor

    def heartbeat(self) -> None:
        now = self._loop.time()
        if self._beat_at is None or now - self._beat_at >= _HEARTBEAT_SECONDS:
            self._beat_at = now
            self._wire.send("heartbeat", self._number)

    async def deliver(self, received: Sequence[Received], cursor: str) -> None:
        async with self._delivering:
            self._stored.clear()
            batch = [wire.dump_received(one) for one in received]
            self._wire.send("deliver", self._number, received=batch, cursor=cursor)
            await self._stored.wait()
            self._cursor = cursor

    def note_stored(self) -> None:
        """Note that the worker has stored the batch that was delivered last."""
        self._stored.set()


async def _close(adapter: ChannelAdapter) -> None:
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await adapter.aclose()
    except Exception as error:  # a broken connection may not even close; it is replaced all the same
        logger.info("a connection could not be closed: %r", error)
