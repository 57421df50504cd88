"""Releases in a folder, their commands, and an installation of `up` with everything embedded."""

import os
import signal
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from tests.support.changed_settings import RATES
from tests.support.live_server import ROOT, START_SECONDS, clean_environment, wait_for
from tests.support.units import free_port

_STOP_SECONDS = 60


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


class Deployment(Protocol):
    """The processes of an installation. replace: with those of another release, as its documentation describes."""

    @property
    def url(self) -> str: ...
    def start(self, code: Path) -> Any: ...
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


def environment_of(folder: Path, **extra: Any) -> dict[str, str]:
    """Return the environment of an installation with its data in the folder, and without limits of rate."""
    kept = clean_environment(KOMAND_DATA_DIR=str(folder), DJANGO_SETTINGS_MODULE="komand.settings.web", **RATES)
    return {**kept, **extra, "PATH": os.environ["PATH"]}
