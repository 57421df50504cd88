"""An installation as `deploy/README.md` describes it: PostgreSQL, Valkey over TCP, a TLS proxy, and the units."""

import json
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

import psycopg

from tests.support.command_forks import CommandForks
from tests.support.live_server import ROOT, wait_for
from tests.support.postgres import open_postgres
from tests.support.tls_proxy import TlsProxy
from tests.support.units import Units, free_port, own_valkey

_NAMES = ("komand-web", "komand-tools", "komand-runs@1", "komand-runs@2", "komand-sockets")


@dataclass
class Deployed:
    """An installation of the units. Its log is that of all units, like the journal of systemd."""

    units: Units
    public_url: str
    certificate: Path
    password: str = ""
    _killed: dict[str, list[int]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.units.url

    @cached_property
    def api_key(self) -> str:
        scopes = ("--scope", "all", "--scope", "rights")
        return self.manage("create_api_key", "--user", "admin", "--name", "tests", *scopes).stdout.strip()

    def manage(self, *arguments: str, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
        return self.forks.run(arguments, seconds)

    @cached_property
    def forks(self) -> CommandForks:
        return CommandForks({"PATH": os.environ["PATH"], **self.units.settings})

    def kill(self, kind: str, number: int = signal.SIGKILL) -> None:
        killed = self.units.of(f"komand-{kind}")
        self._killed[kind] = [unit.ends for unit in killed]
        for unit in killed:
            unit.send(number)

    def wait_healthy(self, kind: str, seconds: float = 60) -> None:
        """Wait until the processes that a kill ended run again."""
        for unit, ends in zip(self.units.of(f"komand-{kind}"), self._killed[kind], strict=True):
            wait_for(lambda unit=unit, ends=ends: unit.ends > ends and unit.ready.is_set(), seconds, unit.name)

    def read_log(self) -> str:
        return "".join(map(_as_text, self.units.log.read_text(errors="replace").splitlines(keepends=True)))


@contextmanager
def start_servers(folder: Path) -> Iterator[dict[str, str]]:
    """Start PostgreSQL and Valkey. Yield the settings of `deploy/komand.env.example` with their addresses."""
    port, password = free_port(), secrets.token_hex(16)
    with (
        open_postgres() as server,
        own_valkey(folder, "--bind", "127.0.0.1", "--port", str(port), "--requirepass", password),
    ):
        database = _create_database(server.url, password)
        addresses = {"DATABASE_URL": database, "REDIS_URL": f"redis://:{password}@127.0.0.1:{port}/0"}
        yield {**_read_example(), **addresses}


@contextmanager
def start_deployed(folder: Path, settings: Mapping[str, str]) -> Iterator[Deployed]:
    """Run the units with the settings that `deploy/komand.env.example` states, and these."""
    with start_servers(folder) as servers, TlsProxy(folder) as proxy:
        own = {
            "KOMAND_DATA_DIR": str(folder / "data"),
            "KOMAND_SOCKETS": str(folder / "sockets.sock"),
            "KOMAND_PUBLIC_URL": proxy.url,
        }
        units = Units(folder, {**servers, **own, **settings}, _NAMES)
        proxy.target = units.port
        try:
            prepared = json.loads(units.start(ROOT).splitlines()[-1])
            deployed = Deployed(units, proxy.url, proxy.certificate, prepared["login"]["password"])
            with closing(deployed.forks):
                yield deployed
        finally:
            units.stop()


def _as_text(line: str) -> str:
    """Return a line of a JSON log as a text log has it."""
    if not line.startswith("{") or not line.endswith("\n"):
        return line
    entry = json.loads(line)
    at, level, logger, message = (entry.pop(name) for name in ("at", "level", "logger", "message"))
    time = datetime.fromisoformat(at).strftime("%H:%M:%S.%f")[:-3]
    fields = " ".join(f"{name}={value}" for name, value in entry.items() if value != "system")
    return f"{time} {level:<7} {logger}: {message}{' · ' if fields else ''}{fields}\n"


def _read_example() -> dict[str, str]:
    """Return the settings that the example states; those in comments are defaults."""
    text = (ROOT / "deploy/komand.env.example").read_text()
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


def _create_database(url: str, password: str) -> str:
    """Create a database and a user without further rights who owns it. Return its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE USER komand PASSWORD '{password}'")
        connection.execute("CREATE DATABASE komand OWNER komand")
    server = url.rpartition("@")[2].partition("/")[0]
    return f"postgresql://komand:{password}@{server}/komand"
