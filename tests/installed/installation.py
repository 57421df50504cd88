"""Installations for scenarios, and what a scenario may ask of one."""

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.installed.deployed import start_deployed
from tests.support.live_server import LiveKomand, start_with_defaults


class Installation(Protocol):
    """A running installation.

    url: its address on this machine, without a slash at the end
    public_url: the address that it knows of itself (KOMAND_PUBLIC_URL); empty if none
    password: of the user admin
    api_key: of admin, with all scopes
    """

    @property
    def url(self) -> str: ...
    @property
    def public_url(self) -> str: ...
    @property
    def password(self) -> str: ...
    @property
    def api_key(self) -> str: ...

    def manage(self, *arguments: str, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
        """Run a command of manage.py with the settings of the installation. seconds: after which it is killed."""

    def kill(self, kind: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to all processes of a kind: web, runs, tools, sockets. They are started again."""

    def wait_healthy(self, kind: str, seconds: float = 60) -> None:
        """Wait until the processes that a kill ended run again."""

    def read_log(self) -> str:
        """Return the log of all processes since the start."""


@dataclass
class Up:
    """An installation of `manage.py up`."""

    komand: LiveKomand
    public_url: str = ""
    _killed: int = 0

    @property
    def url(self) -> str:
        return self.komand.url

    @property
    def password(self) -> str:
        return self.komand.password

    @property
    def api_key(self) -> str:
        return self.komand.api_key

    def manage(self, *arguments: str, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
        return self.komand.manage(*arguments, seconds=seconds)

    def kill(self, kind: str, number: int = signal.SIGKILL) -> None:
        is_crash = kind == "runs" and number == signal.SIGKILL
        self._killed = self.komand.kill_runs() if is_crash else self.komand.kill(self._name(kind), number)

    def wait_healthy(self, kind: str, seconds: float = 60) -> None:
        self.komand.wait_healthy(self._name(kind), other_than=self._killed, seconds=seconds)

    def read_log(self) -> str:
        return self.komand.log.read_text(errors="replace")

    @staticmethod
    def _name(kind: str) -> str:
        return "runs-1" if kind == "runs" else kind


@contextmanager
def start_up(folder: Path, settings: Mapping[str, str]) -> Iterator[Installation]:
    """Run `manage.py up` with its data in the folder and these settings alone."""
    komand = start_with_defaults(folder, **settings)
    try:
        yield Up(komand)
    finally:
        komand.stop()


# One start of each, for all scenarios. settings: the address of the model, and those of `conftest.py`.
Start = Callable[[Path, Mapping[str, str]], AbstractContextManager[Installation]]
INSTALLATIONS: dict[str, Start] = {"up": start_up, "deployed": start_deployed}
