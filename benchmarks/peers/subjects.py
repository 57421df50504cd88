"""The servers that are compared, each started with its block."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil
import psycopg

from benchmarks.databases import open_databases
from benchmarks.installation import open_installation
from benchmarks.peers.environments import programs_of
from benchmarks.peers.viewers import ChainlitViewer, LangGraphViewer
from benchmarks.processes import Listener, NotStarted, end, free_port
from benchmarks.scale import QUICK
from benchmarks.viewers import RelayViewer, Viewer
from benchmarks.wire import Address

BURSTS = (1, 50, 200)
_PROGRAMS = Path(__file__).with_name("programs")
_START_SECONDS = 180
_SCALE = replace(QUICK, bursts=tuple((viewers, 1) for viewers in BURSTS))


@dataclass(frozen=True)
class Running:
    """A running server. viewers: makes as many. pids, database_pids: all processes, by a unique name."""

    viewers: Callable[[int], Sequence[Viewer]]
    pids: Callable[[], dict[str, int]]
    database_pids: Callable[[], dict[str, int]] = dict


@dataclass(frozen=True)
class Subject:
    """stores: what survives a crash. start: takes a folder for data, the cache of virtualenvs and the model."""

    name: str
    stores: str
    start: Callable[[Path, Path, Listener], AbstractContextManager[Running]]


@contextmanager
def _komand(folder: Path, cache: Path, model: Listener, *, database: str) -> Iterator[Running]:
    with open_databases(database) as databases, open_installation(folder, model, _SCALE, "daphne", databases) as found:
        url = found.database.environment.get("DATABASE_URL", "")
        yield Running(
            found.viewers,
            lambda: {f"{part.name} {part.pid}": part.pid for part in found.gateway.parts()},
            partial(_processes_of_database, url) if url else dict,
        )


@contextmanager
def _peer(
    command: Sequence[str],
    viewer: type[RelayViewer | ChainlitViewer | LangGraphViewer],
    folder: Path,
    cache: Path,
    model: Listener,
    **environment: str,
) -> Iterator[Running]:
    """Run a peer. command: the name in `PACKAGES`, a program of its virtualenv and the arguments before the port."""
    peer, program, *arguments = command
    programs, address = programs_of(peer, cache), Address("127.0.0.1", free_port())
    shutil.copytree(_PROGRAMS, folder)
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    given = {"PYTHONPATH": str(folder), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "MODEL_URL": model.url}
    quiet = {"LOG_LEVEL": "WARNING", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false"}
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(programs / program), *arguments, str(address.port)],
            cwd=folder,
            env={**kept, **given, **quiet, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_open(process, address, log)
        yield Running(lambda count: [viewer(address) for _ in range(count)], lambda: _tree(process.pid))
    finally:
        end(process)


@contextmanager
def _dbos(folder: Path, cache: Path, model: Listener) -> Iterator[Running]:
    with open_databases("postgres") as databases:
        url = databases.make(folder).environment["DATABASE_URL"]
        command = ("dbos", "python", "dbos_app.py")
        with _peer(command, RelayViewer, folder, cache, model, PEER_DATABASE_URL=url) as running:
            yield replace(running, database_pids=partial(_processes_of_database, url))


_CHAINLIT = ("chainlit", "chainlit", "run", "chainlit_app.py", "--headless", "--port")
_LANGGRAPH = ("langgraph", "langgraph", "dev", "--no-browser", "--no-reload", "--n-jobs-per-worker", "200", "--port")
_OF_KOMAND = "all: message, run, each step and the end; what is acknowledged is committed"
SUBJECTS = (
    Subject("Komand, SQLite", _OF_KOMAND, partial(_komand, database="sqlite")),
    Subject("Komand, PostgreSQL", _OF_KOMAND, partial(_komand, database="postgres")),
    Subject("Chainlit", "nothing (it has no data layer by default)", partial(_peer, _CHAINLIT, ChainlitViewer)),
    Subject("DBOS, PostgreSQL", "message, end, and the text each 100 ms; a crash repeats the model call", _dbos),
    Subject("LangGraph dev", "what it saves to a file now and then", partial(_peer, _LANGGRAPH, LangGraphViewer)),
)


def _wait_until_open(process: "subprocess.Popen[bytes]", address: Address, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((address.host, address.port), timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise NotStarted(f"it did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _tree(pid: int) -> dict[str, int]:
    return {str(one): one for one in (pid, *(child.pid for child in psutil.Process(pid).children(recursive=True)))}


def _processes_of_database(url: str) -> dict[str, int]:
    with psycopg.connect(url) as connection:
        backend = connection.info.backend_pid
        server = psutil.Process(backend).ppid()
        return {name: pid for name, pid in _tree(server).items() if pid != backend}
