"""The units of `deploy/systemd`, run as systemd runs them: their environment alone, watched, and started again."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from komand.supervisor.embedded import find_binary
from tests.support.live_server import START_SECONDS, wait_for

_STOP_SECONDS = 60
_LOOK_SECONDS = 0.1
_PYTHON = "/srv/komand/app/.venv/bin/python"
_RUNTIME = "/run/komand-sockets/"
_DESCRIPTOR = "3"  # by which systemd passes the first socket
# Of the environment of the tests, a unit has what systemd itself would set.
_INHERITED = ("PATH", "HOME", "USER", "LANG", "TMPDIR")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class UnitFile:
    """A unit, with the paths of this machine. settings: whether it reads /etc/komand.env; times in seconds."""

    command: list[str]
    variables: dict[str, str]
    unset: list[str]
    settings: bool
    restart: float
    watchdog: float

    @classmethod
    def read(cls, folder: Path, name: str, port: int, runtime: Path) -> "UnitFile":
        """Read the file of a unit. port: of the web server; runtime: the folder of RuntimeDirectory.

        A second web process, such as komand-web@2, has the same file under another name.
        """
        template, _, instance = name.partition("@")
        is_copy = template == "komand-web"
        text = (folder / f"{template}{'@' if instance and not is_copy else ''}.service").read_text()
        text = text.replace("\\\n", " ").replace("%%", "%").replace("%i", instance).replace(_RUNTIME, f"{runtime}/")
        found: dict[str, list[str]] = {}
        for key, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE):
            found.setdefault(key, []).append(value)
        command = shlex.split(found["ExecStart"][0].replace("--port 8000", f"--port {port}"))
        program = [sys.executable] if command[0] == _PYTHON else [sys.executable, "-m", Path(command[0]).name]
        variables = dict(one.split("=", 1) for one in found.get("Environment", ()))
        times = [float(found.get(key, ["0"])[0]) for key in ("RestartSec", "WatchdogSec")]
        return cls(
            [*program, *command[1:]], variables, found.get("UnsetEnvironment", []), "EnvironmentFile" in found, *times
        )

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of its process. settings: of /etc/komand.env, which override those of the unit."""
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        whole = {**inherited, **self.variables, **(settings if self.settings else {})}
        return {name: value for name, value in whole.items() if name not in self.unset}


class Unit:
    """A process of a unit, and each that follows it. ends: how many ended unasked."""

    def __init__(
        self, name: str, file: UnitFile, code: Path, settings: Mapping[str, str], log: Path, listener: int | None = None
    ) -> None:
        """listener: descriptor of the socket unit, for a unit with one."""
        self.name, self.ends = name, 0
        self._listener = listener
        self._file, self._code, self._log = file, code, log
        self._notify = log.with_name(f"{name}.notify")
        self._environment = {**file.environment(settings), "NOTIFY_SOCKET": str(self._notify)}
        if file.watchdog:
            self._environment["WATCHDOG_USEC"] = str(int(file.watchdog * 1_000_000))
        self.ready = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._thread.start()

    def wait_ready(self) -> None:
        """Wait until it is ready, or has ended."""
        wait_for(lambda: self.ready.is_set() or self.ends, START_SECONDS, f"{self.name} to be ready")

    def request_stop(self) -> None:
        """Send its process SIGTERM, once: a second one would cut the end of its work short."""
        if not self._stopping.is_set():
            self._stopping.set()
            self.send(signal.SIGTERM)

    def stop(self) -> None:
        """End it for good."""
        self.request_stop()
        self._thread.join(_STOP_SECONDS)
        self.send(signal.SIGKILL)
        self._thread.join()

    def send(self, number: int) -> None:
        """Send its main process a signal."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._run_once()
            self.ends += not self._stopping.is_set()
            self._stopping.wait(self._file.restart)

    def _run_once(self) -> None:
        self._notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, self._log.open("ab") as out:
            notify.bind(str(self._notify))
            notify.settimeout(_LOOK_SECONDS)
            self._process = subprocess.Popen(
                self._file.command,
                cwd=self._code,
                env=self._environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
                umask=0o077,
                pass_fds=() if self._listener is None else (self._listener,),
            )
            self._watch(self._process, notify)
        self.ready.clear()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what it has left behind

    def _watch(self, process: "subprocess.Popen[bytes]", notify: socket.socket) -> None:
        heard = time.monotonic()
        if self._stopping.is_set():  # since before it was started
            process.terminate()
        while process.poll() is None:
            with suppress(TimeoutError):
                if b"READY=1" in notify.recv(4096):
                    self.ready.set()
                heard = time.monotonic()
            if self.ready.is_set() and 0 < self._file.watchdog < time.monotonic() - heard:
                process.kill()


class Units:
    """The units of an installation, with one log. settings: of /etc/komand.env; names: of the units, in order."""

    def __init__(self, folder: Path, settings: dict[str, str], names: tuple[str, ...]) -> None:
        self.port, self.settings = free_port(), settings
        self.log, self.runtime = folder / "units.log", folder
        self._names = names
        self._running: dict[str, Unit] = {}
        self._socket: socket.socket | None = None  # of komand-web.socket

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self, code: Path) -> str:
        """Run `komand-prepare` and return its output. Raises AssertionError with it."""
        file = self._read(code, "komand-prepare")
        environment = file.environment(self.settings)
        done = subprocess.run(file.command, cwd=code, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"prepare of {code}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def start(self, code: Path) -> str:
        """Run `komand-prepare`, then start all units at once. Return the output of the former."""
        prepared = self.prepare(code)
        self._start(self._names, code)
        return prepared

    def replace(self, code: Path) -> None:
        """Restart one after the other, with the code of another release."""
        for name in self._names:
            self.replace_one(name, code)

    def replace_one(self, name: str, code: Path) -> None:
        """Restart a unit. A socket unit goes on listening meanwhile."""
        self._running.pop(name).stop()
        self._start((name,), code)

    def stop(self) -> None:
        for unit in self._running.values():
            unit.request_stop()
        while self._running:
            self._running.popitem()[1].stop()
        self._close_socket()

    def check(self) -> None:
        """Raise AssertionError if a unit ended by itself."""
        ended = [unit.name for unit in self._running.values() if unit.ends]
        assert not ended, f"{ended} ended: {self.log.read_text()[-5000:]}"

    def of(self, template: str) -> list[Unit]:
        """Return the running units of a template, such as komand-runs."""
        return [unit for name, unit in self._running.items() if name.partition("@")[0] == template]

    def _start(self, names: tuple[str, ...], code: Path) -> None:
        started = {name: self._make(name, self._read(code, name), code) for name in names}
        self._running |= started
        for unit in started.values():
            unit.start()
        for unit in started.values():
            unit.wait_ready()
        self.check()

    def _make(self, name: str, file: UnitFile, code: Path) -> Unit:
        """Return a unit of the file. The web unit gets the open socket; that of earlier releases opens one itself."""
        if "--port" in file.command:
            self._close_socket()
        if _DESCRIPTOR not in file.command:
            return Unit(name, file, code, self.settings, self.log)
        self._socket = self._socket or socket.create_server(("127.0.0.1", self.port), backlog=1024)
        command = [str(self._socket.fileno()) if part == _DESCRIPTOR else part for part in file.command]
        return Unit(name, replace(file, command=command), code, self.settings, self.log, self._socket.fileno())

    def _close_socket(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None

    def _read(self, code: Path, name: str) -> UnitFile:
        return UnitFile.read(code / "deploy/systemd", name, self.port, self.runtime)


@contextmanager
def own_valkey(folder: Path, *options: str) -> Iterator[Path]:
    """Start a Valkey without persistence and yield its socket. options: further ones of its command line."""
    binary, place = find_binary(), folder / "valkey.sock"
    assert binary, "there is no Valkey for this platform"
    given = options or ("--port", "0")
    process = subprocess.Popen(
        [binary, *given, "--unixsocket", place, "--save", "", "--dir", folder, "--loglevel", "warning"]
    )
    try:
        wait_for(place.exists, 60, "the socket of Valkey")
        yield place
    finally:
        process.terminate()
        process.wait(60)
