"""A fake server on 127.0.0.1, in its own thread, with faults on demand. The fake platforms are built on it."""

import asyncio
import threading
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.fakes.http_protocol import Connection, HttpRequest, Response


@dataclass
class Fault:
    """A fault of one request.

    what: `status` (refused), `drop` (connection closed before the request is processed), `accept_and_drop` (closed
    after that), `slow` (answered after `seconds`)
    only: a part of the path that the request must have
    """

    what: str
    status: int = 500
    retry_after: int = 0
    seconds: float = 0.0
    only: str = ""
    description: str = "a fault on demand"


class FakeServer:
    """A server. Each request uses up the first of `faults` that applies to it."""

    def __init__(self, *, port: int = 0) -> None:
        self.port = port
        self.faults: deque[Fault] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fake-server", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._loop
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def take(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes]:
        """Process a request. Return status, headers and body of the answer."""
        raise NotImplementedError

    def refuse(self, fault: Fault) -> tuple[int, dict[str, str], bytes]:
        """Return the answer to a request that is refused on demand."""
        return fault.status, {"retry-after": str(fault.retry_after)} if fault.retry_after else {}, b""

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        transports: set[asyncio.Transport] = set()

        def connect() -> Connection:
            return Connection(self._handle, lambda: None, transports)

        server = await self._loop.create_server(connect, "127.0.0.1", self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        server.close()
        for transport in transports:
            transport.abort()

    async def _handle(self, request: HttpRequest, response: Response) -> None:
        fault = self._next_fault(request)
        if fault and fault.what == "status":
            response.whole(*self.refuse(fault))
            return
        if fault and fault.what == "drop":
            response.drop()
            return
        answer = self.take(request)
        if fault and fault.what == "accept_and_drop":
            response.drop()
            return
        if fault and fault.what == "slow":
            await asyncio.sleep(fault.seconds)
        response.whole(*answer)

    def _next_fault(self, request: HttpRequest) -> Fault | None:
        for fault in self.faults:
            if fault.only in request.path:
                self.faults.remove(fault)
                return fault
        return None
