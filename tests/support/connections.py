"""A runs worker that keeps connections, and the process `sockets`, in a thread of a test."""

import asyncio
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID, uuid4

from audit_app.kernel.liveness.store import installed_marks
from sessions_app.channels.connections.keeper import Keeper
from sessions_app.channels.connections.receiver import Receiver
from sessions_app.channels.connections.sockets_process import SocketsProcess


class SocketsThread:
    """Both sides on an event loop of their own, over a real socket. holder: the id of the process that it stands for.

    has_process: whether the process `sockets` runs at first; see `start_process`, `kill_process`.
    """

    def __init__(self, holder: UUID | None = None, *, has_process: bool = True) -> None:
        self.holder = holder or uuid4()
        self.requests = 0
        self._has_process = has_process
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sockets", daemon=True)
        self._keeping: asyncio.Task[None] | None = None
        self._receiving: asyncio.Task[None] | None = None
        self.keeper: Keeper
        self._started = threading.Event()

    def __enter__(self) -> Self:
        # Its path must be short enough for a socket.
        self._folder = tempfile.TemporaryDirectory(prefix="komand-")
        self._path = Path(self._folder.name) / "sockets.sock"
        self._mark = installed_marks().open(self.holder, "runs")
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._keeping
        self._loop.call_soon_threadsafe(self._keeping.cancel)
        self._thread.join()
        self._loop.close()
        self._folder.cleanup()
        self._mark.close()

    def start_process(self) -> None:
        self._loop.call_soon_threadsafe(self._start_process)

    def kill_process(self) -> None:
        """End the process `sockets`: its connections end, and its socket is left behind."""
        assert self._receiving
        self._loop.call_soon_threadsafe(self._receiving.cancel)

    def _start_process(self) -> None:
        self._receiving = self._loop.create_task(Receiver().run(self._path))

    def _count_request(self) -> None:
        self.requests += 1

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        if self._has_process:
            self._start_process()
        self.keeper = Keeper(self.holder, SocketsProcess(self._path), self._count_request)
        self._keeping = self._loop.create_task(self.keeper.run())
        self._loop.call_soon(self._started.set)
        self._loop.run_until_complete(asyncio.gather(self._keeping, return_exceptions=True))
        if self._receiving:
            self._receiving.cancel()
            self._loop.run_until_complete(asyncio.gather(self._receiving, return_exceptions=True))
