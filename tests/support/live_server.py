"""A running installation for tests: `manage.py up` with all its processes, in its own folder and on its own port."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2
import psutil

from tests.support.changed_settings import RATES
from tests.support.command_forks import CommandForks

ROOT = Path(__file__).parents[2]
# A limit of waiting, not a claim about a start: the first one migrates, and a busy machine takes many times as long.
START_SECONDS = 180


def clean_environment(**extra: str) -> dict[str, str]:
    """Return this process's environment without the variables of the test settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KOMAND_", "OPENAI_", "DJANGO_"))}
    for name in ("REDIS_URL", "DATABASE_URL"):
        kept.pop(name, None)
    return {**kept, **extra}


def wait_for(
    condition: Callable[[], Any], seconds: float = 60.0, what: str = "the condition", *, every: float = 0.05
) -> Any:
    """Poll until the condition is truthy and return it; raises AssertionError after the deadline. every: seconds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds:g} s")
        time.sleep(every)
    return found


@dataclass
class LiveKomand:
    """One running installation. url: without a slash at the end; password: of the user admin; seen: every process id
    that a status showed."""

    url: str
    password: str
    data_dir: Path
    log: Path
    process: "subprocess.Popen[bytes]"
    environment: dict[str, str]
    seen: set[int] = field(default_factory=set)
    _token: str = ""

    def status(self) -> dict[str, Any]:
        """Return the output of `manage.py status --json`."""
        found = self.manage("status", "--json")
        parsed: dict[str, Any] = json.loads(found.stdout)
        self.seen |= {part["pid"] for part in parsed["processes"] if part["pid"]}
        return parsed

    def manage(self, *arguments: str, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
        """Run a command of manage.py for this installation. seconds: after which it is killed."""
        if arguments[0] in ("up", "status", "restart"):  # which need no Django
            return self.run("manage.py", *arguments, seconds=seconds)
        return self._forks.run(arguments, seconds)

    def run(self, *arguments: str, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
        """Run Python with these arguments for this installation. seconds: after which it is killed."""
        command, environment = [sys.executable, *arguments], self._whole_environment
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)

    @property
    def _whole_environment(self) -> dict[str, str]:
        return {**self.environment, "KOMAND_DATA_DIR": str(self.data_dir)}

    @cached_property
    def _forks(self) -> CommandForks:
        return CommandForks(self._whole_environment)

    @cached_property
    def api_key(self) -> str:
        """An API key of admin."""
        return self.manage(
            "create_api_key", "--user", "admin", "--name", "tests", "--scope", "all", "--scope", "rights"
        ).stdout.strip()

    def part(self, name: str) -> dict[str, Any] | None:
        """Return one process by name: supervisor, valkey, web, runs-1, tools, tools/1."""
        return next((part for part in self.status()["processes"] if part["name"] == name), None)

    def pid_of(self, name: str) -> int:
        part = self.part(name)
        assert part and part["pid"], f"{name} does not run: {self.status()}"
        return int(part["pid"])

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to one process. Return its id."""
        pid = self.pid_of(name)
        os.kill(pid, number)
        return pid

    def kill_runs(self) -> int:
        """Kill every process that executes runs, whichever has the run of a test. Return the id of the first."""
        pids = [part["pid"] for part in self.status()["processes"] if part["name"].startswith("runs-") and part["pid"]]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return int(pids[0])

    def wait_healthy(self, name: str, *, other_than: int = 0, seconds: float = 60) -> None:
        """Wait until the process is healthy, with an id other than that of the killed one."""

        def is_healthy() -> bool:
            part = self.part(name)
            return bool(part and part["health"] == "ok" and part["pid"] != other_than)

        wait_for(is_healthy, seconds, f"a healthy {name}", every=0.3)  # each look is a process

    def ask(self, text: str, seconds: float = 30) -> dict[str, Any]:
        """Send a message as admin over REST and return the whole answer's envelope."""
        body = {"senderId": "admin", "text": text}
        return self._request("POST", "/api/webchat/message", seconds, body, self._login(seconds))

    def get(self, path: str) -> Any:
        """Return the data of GET /api/<path> as admin."""
        return self._request("GET", f"/api/{path}", 30, None, self._login(30))["data"]

    def _login(self, seconds: float) -> dict[str, str]:
        if not self._token:
            who = {"email": "admin@localhost", "password": self.password}
            self._token = self._request("POST", "/api/auth/login", seconds, who, {})["data"]["token"]
        return {"Authorization": f"Bearer {self._token}"}

    def access_token(self) -> str:
        """Return the access token of a login of admin."""
        return self._login(30)["Authorization"].removeprefix("Bearer ")

    def _request(self, method: str, path: str, seconds: float, body: Any, headers: dict[str, str]) -> dict[str, Any]:
        answer = httpx2.request(method, self.url + path, json=body, headers=headers, timeout=seconds)
        parsed: dict[str, Any] = answer.json()
        return parsed

    def restart(self, number: int = signal.SIGKILL) -> None:
        """End the supervisor by this signal, wait until its processes are gone, start it again on the same port."""
        self._forks.close()
        self.status()
        self.process.send_signal(number)
        self.process.wait(30)
        wait_for(lambda: not any(psutil.pid_exists(pid) for pid in self.seen), 60, "the end of all processes")
        self.seen.clear()
        logged = len(self.log.read_bytes())
        port = self.url.rpartition(":")[2]
        self.process = _launch(self.data_dir, self.log, self.environment, port)
        wait_for(lambda: _ready_line(self.log, self.process, logged), START_SECONDS, "the ready line of another start")

    def stop(self) -> int:
        """Stop it as Ctrl-C does. Return the exit code."""
        self._forks.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


def start_komand(folder: Path, **environment: str) -> LiveKomand:
    """Start with rates that tests do not reach; see `start_with_defaults`."""
    return start_with_defaults(folder, **{**RATES, **environment})


def start_with_defaults(folder: Path, **environment: str) -> LiveKomand:
    """Start on a free port with these settings alone, and wait until it is ready.

    Raises AssertionError with its log after the time limit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.txt"
    started_with = clean_environment(**environment)
    log.unlink(missing_ok=True)
    process = _launch(folder / "data", log, started_with, "0")
    try:
        ready = wait_for(lambda: _ready_line(log, process), START_SECONDS, "the ready line")
    except AssertionError as error:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        raise AssertionError(f"{error}\n{log.read_text()}") from None
    login = re.search(r"First login +admin +(\S+)", log.read_text())
    return LiveKomand(ready.group(1), login.group(1) if login else "", folder / "data", log, process, started_with)


def _launch(data_dir: Path, log: Path, environment: dict[str, str], port: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "manage.py", "up", "--port", port, "--data-dir", str(data_dir)]
    with log.open("ab") as out:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out, umask=0o022)


def _ready_line(log: Path, process: "subprocess.Popen[bytes]", after: int = 0) -> "re.Match[str] | None":
    """Return the match of the ready line, or None. after: the length of the log before this start, in bytes."""
    if process.poll() is not None:
        raise AssertionError(f"it ended with code {process.returncode}")
    text = log.read_bytes()[after:].decode(errors="replace")
    return re.search(r"Komand is ready at (\S+)", text) if "Ctrl-C" in text else None
