"""The processes of a benchmark: the fake model server, the bare relay and the gateway, each stopped with its block."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from benchmarks.wire import Address
from tests.support.changed_settings import RATES

ROOT = Path(__file__).resolve().parents[1]
_STOP_SECONDS = 15
_START_SECONDS = 180  # a limit of waiting, for a busy machine
_RETRY_SECONDS = 0.01
_OURS = ("KOMAND_", "OPENAI_", "REDIS_URL", "DATABASE_URL", "DJANGO_", "NOTIFY_SOCKET", "PYTHONDONTWRITEBYTECODE")


class NotStarted(Exception):
    """A process did not start; the message has the end of its output."""


class Listener:
    """A Python module that prints `listening on <url>` and then serves until SIGTERM."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", module, *arguments]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if "listening on " not in line:
            end(self._process)
            raise NotStarted(f"{' '.join(self._command)} did not start")
        self.url = line.split("listening on ")[1].strip()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end(self._process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def address(self) -> Address:
        parts = urlsplit(self.url)
        assert parts.hostname and parts.port
        return Address(parts.hostname, parts.port)


@dataclass(frozen=True)
class Part:
    """One process of the gateway, as `manage.py status` lists it."""

    name: str
    pid: int


class Gateway:
    """An installation on its own data folder, started by `manage.py up`, its model the one at `model_url`.

    environment: further settings.
    start_seconds: from the command to the first page that answers 200.
    stop_seconds: from SIGTERM to the end of the command.
    """

    def __init__(self, data_dir: Path, model_url: str, *, server: str = "daphne", **environment: str) -> None:
        self.address = Address("127.0.0.1", free_port())
        self.start_seconds = self.stop_seconds = 0.0
        self._data_dir = data_dir
        self._server = server
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OURS)},
            "KOMAND_DATA_DIR": str(data_dir),
            **RATES,
            "OPENAI_BASE_URL": model_url,
            "OPENAI_API_KEY": "benchmark",
            "KOMAND_MODEL": "fake",
            **environment,
        }

    def __enter__(self) -> Self:
        begun = time.monotonic()
        command = [sys.executable, "manage.py", "up", "--port", str(self.address.port), "--server", self._server]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self._wait_for_page(begun + _START_SECONDS)
        except BaseException:
            end(self._process)
            raise
        self.start_seconds = time.monotonic() - begun
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        begun = time.monotonic()
        end(self._process)
        self.stop_seconds = time.monotonic() - begun

    def prepare(self) -> None:
        """Create the database without starting anything, so that it can be filled first."""
        self.run(["-m", "django", "prepare"])

    def run(self, arguments: list[str], *, seconds: float = 120) -> str:
        """Run Python on this data folder. Return its output."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=self._python, capture_output=True, text=True, timeout=seconds
        )
        if done.returncode:
            raise NotStarted(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
        return done.stdout

    def open(self, module: str, *arguments: str, settings: str = "web") -> "subprocess.Popen[str]":
        """Start a Python module on this data folder, with pipes to its standard input and output."""
        environment = {**self._python, "DJANGO_SETTINGS_MODULE": f"komand.settings.{settings}"}
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def _python(self) -> dict[str, str]:
        return {**self._environment, "DJANGO_SETTINGS_MODULE": "komand.settings.web"}

    def parts(self) -> tuple[Part, ...]:
        """Return the supervisor, its processes that run, and their children."""
        command = [sys.executable, "manage.py", "status", "--json"]
        done = subprocess.run(command, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=30)
        status: Mapping[str, Any] = json.loads(done.stdout)
        return tuple(Part(part["name"], part["pid"]) for part in status["processes"] if part["pid"])

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    @property
    def _log(self) -> Path:
        return self._data_dir.with_suffix(".log")

    def _wait_for_page(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            if _first_page_answers(self.address):
                return
            time.sleep(_RETRY_SECONDS)
        raise NotStarted(f"manage.py up did not reach its first page:\n{self.log_tail()}")


def _first_page_answers(address: Address) -> bool:
    """Return whether /login answers 200. Waits for the answer if the connection is accepted."""
    try:
        with socket.create_connection((address.host, address.port), timeout=5) as connection:
            connection.sendall(f"GET /login HTTP/1.1\r\nHost: {address.host}\r\nConnection: close\r\n\r\n".encode())
            return b" 200 " in connection.recv(4096).split(b"\r\n", 1)[0]
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def end(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
