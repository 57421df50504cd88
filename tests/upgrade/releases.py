"""Installations of a release in a folder: `up` with everything embedded, and the units of `deploy/systemd`."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from komand.supervisor.embedded import find_binary
from tests.support.changed_settings import RATES
from tests.support.live_server import ROOT, START_SECONDS, clean_environment, wait_for

_STOP_SECONDS = 60
_APP = "/srv/komand/app"


class UnknownRevision(Exception):
    """The revision is not in this clone."""


def export(revision: str, folder: Path) -> Path:
    """Write the files of a revision into the folder and return it. Raises UnknownRevision."""
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True)
    if packed.returncode:
        raise UnknownRevision(packed.stderr.decode().strip())
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Deployment(Protocol):
    """The processes of an installation. replace: with those of another release, as its documentation describes."""

    @property
    def url(self) -> str: ...
    def start(self, code: Path) -> None: ...
    def replace(self, code: Path) -> None: ...
    def stop(self) -> None: ...
    def check(self) -> None: ...


@dataclass
class Commands:
    """`manage.py` of any release for one installation. environment: of all its processes."""

    environment: dict[str, str]

    def run(self, code: Path, *arguments: str, seconds: float = 300) -> str:
        """Return the output of a command. Raises AssertionError with its errors if it fails."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=code,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        assert done.returncode == 0, f"{arguments[0]} of {code}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def start(self, code: Path, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.Popen(command, cwd=code, env=self.environment, stdout=subprocess.DEVNULL)


@dataclass
class Embedded:
    """`manage.py up` with SQLite and its own Valkey: stopped and started on the same port."""

    commands: Commands
    folder: Path
    port: int = field(default_factory=free_port)
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def _log(self) -> Path:
        return self.folder / "up.log"

    def start(self, code: Path) -> None:
        seen = len(self._log.read_text()) if self._log.exists() else 0
        with self._log.open("ab") as out:
            command = [sys.executable, "manage.py", "up", "--port", str(self.port)]
            self._process = subprocess.Popen(
                command, cwd=code, env=self.commands.environment, stdout=out, stderr=out, umask=0o022
            )
        wait_for(lambda: "Ctrl-C" in self._log.read_text()[seen:] or self._ended(), START_SECONDS, "the ready line")
        self.check()

    def replace(self, code: Path) -> None:
        self.stop()
        self.start(code)

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_STOP_SECONDS)

    def check(self) -> None:
        assert not self._ended(), self._log.read_text()[-5000:]

    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None


class Units:
    """The units of `deploy/systemd`, with a Valkey of its own: replaced one after the other."""

    _NAMES = ("komand-web", "komand-tools", "komand-runs@1", "komand-runs@2")

    def __init__(self, commands: Commands, folder: Path, valkey: Path) -> None:
        self.port = free_port()
        self._commands, self._folder = commands, folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        commands.environment["REDIS_URL"] = f"unix://{valkey}?db=0"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, code: Path) -> None:
        self._commands.run(code, "prepare")
        for name in self._NAMES:
            self._start(name, code)

    def replace(self, code: Path) -> None:
        for name in self._NAMES:
            self._stop(name)
            self._start(name, code)

    def stop(self) -> None:
        for name in tuple(self._running):
            self._stop(name)

    def check(self) -> None:
        ended = [name for name, process in self._running.items() if process.poll() is not None]
        assert not ended, f"{ended} ended: {[(self._folder / f'{name}.log').read_text()[-3000:] for name in ended]}"

    def _start(self, name: str, code: Path) -> None:
        command, environment = _read_unit(code / "deploy/systemd", name, self.port)
        with _ready_socket(self._folder / "notify") as ready, (self._folder / f"{name}.log").open("ab") as out:
            environment = {**self._commands.environment, **environment, "NOTIFY_SOCKET": str(self._folder / "notify")}
            self._running[name] = subprocess.Popen(
                command, cwd=code, env=environment, stdout=out, stderr=out, start_new_session=True
            )

            def is_ready() -> bool:
                self.check()
                return _has_ready(ready)

            wait_for(is_ready, START_SECONDS, f"{name} to be ready")

    def _stop(self, name: str) -> None:
        process = self._running.pop(name)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process.wait(_STOP_SECONDS)


def _read_unit(folder: Path, name: str, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the command of a unit and its own variables, with the paths of this machine."""
    template, _, instance = name.partition("@")
    file = folder / (f"{template}@.service" if instance else f"{template}.service")
    text = file.read_text().replace("\\\n", " ").replace("%%", "%").replace("%i", instance)
    [line] = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    variables = dict(one.split("=", 1) for one in re.findall(r"^Environment=(.*)$", text, re.MULTILINE))
    command = shlex.split(line.replace("--port 8000", f"--port {port}"))
    program = command.pop(0).removeprefix(f"{_APP}/.venv/bin/")
    return [sys.executable, *(() if program == "python" else ("-m", program)), *command], variables


@contextmanager
def _ready_socket(path: Path) -> Iterator[socket.socket]:
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind(str(path))
        ready.setblocking(False)
        yield ready


def _has_ready(ready: socket.socket) -> bool:
    with suppress(BlockingIOError):
        while message := ready.recv(4096):
            if b"READY=1" in message:
                return True
    return False


@contextmanager
def own_valkey(folder: Path) -> Iterator[Path]:
    """Start a Valkey without persistence and yield its socket."""
    binary, place = find_binary(), folder / "valkey.sock"
    assert binary, "there is no Valkey for this platform"
    process = subprocess.Popen(
        [binary, "--port", "0", "--unixsocket", place, "--save", "", "--dir", folder, "--loglevel", "warning"]
    )
    try:
        wait_for(place.exists, 20, "the socket of Valkey")
        yield place
    finally:
        process.terminate()
        process.wait(20)


def environment_of(folder: Path, **extra: Any) -> dict[str, str]:
    """Return the environment of an installation with its data in the folder, and without limits of rate."""
    kept = clean_environment(KOMAND_DATA_DIR=str(folder), DJANGO_SETTINGS_MODULE="komand.settings.web", **RATES)
    return {**kept, **extra, "PATH": os.environ["PATH"]}
