"""A live installation for tests with faults: its clients, rows, live streams and processes."""

import json
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import psycopg
import redis

from komand.settings import env
from tests.chaos.clients import AGAIN_SECONDS, Browser, Program, Watching
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, start_komand, wait_for

# Longer than any test keeps a database unavailable.
_DATABASE_SECONDS = 40.0
_ENDED = ("completed", "failed", "cancelled", "timed_out")


@dataclass(frozen=True)
class Sent:
    """A message that was accepted. session_id: the session's primary key."""

    run_id: UUID
    session_id: UUID


class Installation:
    """`send` messages as admin, look at runs, break things. database: the URL of its PostgreSQL, empty for SQLite."""

    def __init__(self, komand: LiveKomand, model: ModelServer, database: str) -> None:
        self.komand = komand
        self.model = model
        self.database = database
        self.program = Program(komand)
        self._browser: Browser | None = None

    def close(self) -> None:
        self.program.close()
        if self._browser:
            self._browser.close()

    # Clients

    def send(self, text: str, *, account: str = "", key: str = "", agent: str = "default", seconds: float = 60) -> Sent:
        """Send a message as admin until it is accepted, under one Idempotency-Key.

        account: messages of one account go into one session; empty: a session of its own. agent: of a new session.
        """
        body = {"senderId": "admin", "accountId": account or uuid4().hex[:12], "text": text, "agentId": agent}
        headers = {"Idempotency-Key": key or uuid4().hex, "Prefer": "respond-async"}
        data = self.program("POST", "/api/webchat/message", seconds, json=body, headers=headers)
        run_id = UUID(data["runId"])
        return Sent(run_id, UUID(str(self.run(run_id)["conversation_id"])))

    def post(self, path: str, body: dict[str, Any], seconds: float = 30) -> Any:
        return self.program("POST", path, seconds, json=body)

    def watch(self, session_id: UUID, seen: Callable[[dict[str, Any]], None] = lambda act: None) -> Watching:
        """Return a page that watches the session from its beginning. seen: called with each update."""
        if self._browser is None:
            self._browser = Browser(self.komand)
        return Watching(self.komand, session_id, self._browser.cookie, seen).start()

    # Rows

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query. Retries while the database is unavailable."""
        deadline = time.monotonic() + _DATABASE_SECONDS
        while True:
            try:
                return self._read(sql)
            except (sqlite3.OperationalError, psycopg.OperationalError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(AGAIN_SECONDS)

    def _read(self, sql: str) -> list[dict[str, Any]]:
        if self.database:
            with psycopg.connect(self.database, autocommit=True, row_factory=psycopg.rows.dict_row) as connection:
                return list(connection.execute(sql).fetchall())  # type: ignore[call-overload]
        with closing(sqlite3.connect(f"file:{self.sqlite}?mode=ro", uri=True, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql)]

    @property
    def sqlite(self) -> Path:
        return self.komand.data_dir / "komand.sqlite3"

    def run(self, run_id: UUID) -> dict[str, Any]:
        return self.rows(f"SELECT * FROM komand_run WHERE id = '{self.key(run_id)}'")[0]

    def executions(self, run_id: UUID) -> list[dict[str, Any]]:
        return self.rows(
            f"SELECT * FROM komand_tool_execution WHERE run_id = '{self.key(run_id)}' ORDER BY step, call_index"
        )

    def answer(self, run_id: UUID) -> dict[str, Any]:
        return self.rows(f"SELECT * FROM komand_turn WHERE is_answer AND run_id = '{self.key(run_id)}'")[0]

    def key(self, row_id: UUID) -> str:
        """Return the id in the database's notation."""
        return str(row_id) if self.database else row_id.hex

    def wait_ended(self, run_id: UUID, seconds: float = 60) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            run = self.run(run_id)
            return run if run["status"] in _ENDED else None

        found: dict[str, Any] = wait_for(ended, seconds, f"the end of run {run_id}")
        return found

    def check_invariants(self) -> None:
        """Run `check_invariants`. Raises AssertionError with its output if it finds a violation."""
        found = self.komand.manage("check_invariants", "--grace", "6")
        assert found.returncode == 0, found.stdout + found.stderr

    # Live streams

    @contextmanager
    def valkey(self) -> Iterator["redis.Redis"]:
        """Yield a client of the embedded Valkey with Komand's password."""
        place = (self.komand.data_dir / "valkey" / "socket").read_text().strip()
        password = env.stored_secret(self.komand.data_dir, env.VALKEY_SECRET)
        with redis.Redis(
            unix_socket_path=place, username=env.VALKEY_USER, password=password, decode_responses=True
        ) as client:
            yield client

    def empty_valkey(self) -> None:
        """Delete every key, because FLUSHALL is not among the commands of Komand's user."""
        with self.valkey() as client:
            client.delete(*client.scan_iter(count=1000), "none")

    def entries(self, run_id: UUID) -> list[tuple[int, dict[str, Any]]]:
        """Return the entries of the run's live stream as (fence, entry)."""
        with self.valkey() as client:
            found = client.xrange(f"komand:run:{run_id}")
        return [(int(entry_id.split("-")[0]), json.loads(fields["e"])) for entry_id, fields in found]

    def wait_text(self, run_id: UUID, *, fence: int = 1, seconds: float = 30) -> None:
        """Wait until this claim, or a later one, has sent text."""

        def has_text() -> bool:
            with suppress(redis.exceptions.RedisError):
                return any(number >= fence and entry["type"] == "text.delta" for number, entry in self.entries(run_id))
            return False

        wait_for(has_text, seconds, f"text of claim {fence}")

    # Breaking

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return the entries of the supervisor's state file by process name."""
        note = json.loads((self.komand.data_dir / "supervisor.json").read_text())
        return {part["name"]: part for part in note["processes"]}

    def pids(self, kind: str) -> list[int]:
        """Return the ids of the processes of a kind: web, runs, tools, tool (a child that runs tools), valkey."""
        parts = {name: part["pid"] for name, part in self.parts().items() if part["pid"]}
        if kind == "tool":
            with suppress(psutil.Error, KeyError):
                return [child.pid for child in psutil.Process(parts["tools"]).children()]
            return []
        return [pid for name, pid in parts.items() if name.split("-")[0] == kind]

    def strike(self, kind: str, number: int = signal.SIGKILL, index: int = 0) -> int:
        """Send a signal to a process of that kind. Return its id."""
        found = wait_for(lambda: self.pids(kind), 60, f"a process {kind}")
        pid = found[index % len(found)]
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).send_signal(number)
        return int(pid)

    def strike_holder(self, run_id: UUID, number: int = signal.SIGKILL) -> int:
        """Send a signal to the process that holds the run. Return its id."""
        pid = self.holder_of(run_id)
        psutil.Process(pid).send_signal(number)
        return pid

    def holder_of(self, run_id: UUID) -> int:
        """Return the id of the process that holds the run."""
        owner = UUID(str(self.run(run_id)["owner"]))
        if self.database:
            pid = self.rows(f"SELECT pid FROM komand_process_life WHERE id = '{owner}'")[0]["pid"]
        else:
            pid = json.loads((self.komand.data_dir / "alive" / str(owner)).read_text())["pid"]
        return int(pid)

    def owners_of(self, pid: int) -> list[str]:
        """Return the ids, in the database's notation, under which a process owns runs and calls."""
        if self.database:
            return [str(row["id"]) for row in self.rows(f"SELECT id FROM komand_process_life WHERE pid = {pid}")]
        files = (self.komand.data_dir / "alive").iterdir()
        return [self.key(UUID(file.name)) for file in files if _pid_in(file) == pid]

    def wait_well(self, seconds: float = 40) -> None:
        wait_for(lambda: self.komand.manage("status").returncode == 0, seconds, "an installation that is well")


def _pid_in(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(json.loads(file.read_text())["pid"])
    return None


@contextmanager
def open_installation(
    folder: Path, model: ModelServer, database: str = "", **environment: str
) -> Iterator[Installation]:
    """Start an installation; stop it at the end."""
    extra = {"DATABASE_URL": database} if database else {}
    settings = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "nobody", "KOMAND_MODEL": "fake", **extra}
    komand = start_komand(folder, **{"KOMAND_RUN_WORKERS": "1", **settings, **environment})
    host = Installation(komand, model, database)
    try:
        yield host
    finally:
        host.close()
        komand.stop()
