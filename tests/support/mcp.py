"""An event loop on a thread of its own, on which tests open connections to MCP servers and keep them."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.live_server import ROOT
from tools_app.mcp_client.config import ServerConfig
from tools_app.mcp_client.connection import Connection

BAD = str(ROOT / "tests" / "fakes" / "mcp" / "bad.py")
GOOD = ("-m", "tests.fakes.mcp.good")
GOOD_ENVIRONMENT = {"PYTHONPATH": str(ROOT), "API_KEY": "0123456789"}


class LoopThread:
    """`run` a coroutine there and return its result; `start` it and return a future."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Any], seconds: float = 30) -> Any:
        return self.start(work).result(seconds)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


class Caller:
    """A connection on that thread; `call` blocks; `progress` lists the reports, oldest first."""

    def __init__(self, loop: LoopThread, config: ServerConfig) -> None:
        self.loop = loop
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.changes = 0
        self.connection = loop.run(self._make(config))

    async def _make(self, config: ServerConfig) -> Connection:
        return Connection(config, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def open(self) -> "Caller":
        self.loop.run(self.connection.open())
        return self

    def pictures_of(self, tool: str) -> list[Any]:
        """Return the pictures that a call without arguments returns."""
        found: list[Any] = []
        seconds, report = 10, self._note
        self.loop.run(self.connection.call(tool, {}, seconds=seconds, on_progress=report, pictures=found))
        return found

    def call(self, tool: str, seconds: int = 10, **arguments: Any) -> Any:
        return self.begin(tool, seconds, **arguments).result(30)

    def begin(self, tool: str, seconds: int = 10, **arguments: Any) -> Any:
        return self.loop.start(self.connection.call(tool, arguments, seconds=seconds, on_progress=self._note))

    async def _note(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))

    def close(self) -> None:
        self.loop.run(self.connection.aclose())


def good(folder: Path, **fields: Any) -> ServerConfig:
    return ServerConfig("good", "stdio", sys.executable, GOOD, GOOD_ENVIRONMENT, folder, **fields)


def bad(folder: Path, how: str, **fields: Any) -> ServerConfig:
    return ServerConfig(how, "stdio", sys.executable, ("-S", BAD, how), {}, folder, **fields)


@contextmanager
def serving(transport: str) -> Iterator[str]:
    """Start the good server over HTTP in its own process. Yield its base URL."""
    with process_of(*GOOD, transport=transport) as (url, _):
        yield url


@contextmanager
def process_of(*module: str, transport: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a server over HTTP in its own process. module: arguments of Python. Yield its base URL and the process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, *module, str(port), transport]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()
