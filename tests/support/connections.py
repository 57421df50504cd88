"""The process `sockets` in a thread of a test."""

import asyncio
import threading
from types import TracebackType
from typing import Self
from uuid import UUID, uuid4

from sessions_app.channels.connections.keeper import Keeper


class SocketsThread:
    """A keeper on an event loop of its own. holder: the id of the process that it stands for."""

    def __init__(self, holder: UUID | None = None) -> None:
        self.holder = holder or uuid4()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sockets", daemon=True)
        self._task: asyncio.Task[None] | None = None
        self.keeper: Keeper
        self._started = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._task
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        self.keeper = Keeper(self.holder)
        self._task = self._loop.create_task(self.keeper.run())
        self._loop.call_soon(self._started.set)
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            return
