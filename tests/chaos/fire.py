"""A live installation under fire: its clients, its rows, its live streams, and the hands that break it."""

import html
import json
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import psutil
import psycopg
import redis
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

from tests.fakes.model_server import ModelServer
from tests.live import LiveKomand, start_komand, wait_for

_AGAIN_SECONDS = 0.2
_ENDED = ("completed", "failed", "cancelled", "timed_out")


@dataclass(frozen=True)
class Sent:
    """A message that was accepted. session_id: the session's primary key."""

    run_id: UUID
    session_id: UUID
    session_key: str


class Fire:
    """`send` messages as admin, look at runs, break things. database: the URL of its PostgreSQL, empty for SQLite."""

    def __init__(self, komand: LiveKomand, model: ModelServer, database: str) -> None:
        self.komand = komand
        self.model = model
        self._database = database
        self._client = httpx2.Client(base_url=komand.url, timeout=10)
        self._token = ""

    def close(self) -> None:
        self._client.close()

    # Clients

    def send(self, text: str, *, account: str = "", key: str = "", seconds: float = 60) -> Sent:
        """Send until it is accepted, under one Idempotency-Key, as a good client does whose connection breaks.

        account: messages of one account go into one session; empty: a session of its own.
        """
        body = {"senderId": "admin", "accountId": account or uuid4().hex[:12], "text": text}
        headers = {"Idempotency-Key": key or uuid4().hex, "Prefer": "respond-async"}
        answer = self._insist("POST", "/api/webchat/message", seconds, json=body, headers=headers)
        run_id = UUID(answer["data"]["runId"])
        return Sent(run_id, UUID(str(self.run(run_id)["conversation_id"])), answer["data"]["sessionId"])

    def post(self, path: str, body: dict[str, Any], seconds: float = 30) -> Any:
        return self._insist("POST", path, seconds, json=body)["data"]

    def _insist(self, method: str, path: str, seconds: float, **options: Any) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        given = options.pop("headers", {})
        while True:
            with suppress(httpx2.HTTPError):
                headers = {**given, "Authorization": f"Bearer {self._bearer()}"}
                answer = self._client.request(method, path, headers=headers, **options)
                if answer.status_code < 300:
                    parsed: dict[str, Any] = answer.json()
                    return parsed
                assert answer.status_code in (429, 500, 503), answer.text
            assert time.monotonic() < deadline, f"{path} was not served within {seconds:g} s"
            time.sleep(_AGAIN_SECONDS)

    def _bearer(self) -> str:
        if not self._token:
            body = {"email": "admin@localhost", "password": self.komand.password}
            self._token = self._client.post("/api/auth/login", json=body).json()["data"]["token"]
        return self._token

    def page_cookie(self) -> str:
        """The cookie of a page that admin has logged in to."""
        with httpx2.Client(base_url=self.komand.url, timeout=30) as browser:
            browser.get("/login")
            [token] = dict(browser.cookies).values()
            form = {"username": "admin", "password": self.komand.password, "csrfmiddlewaretoken": token}
            browser.post("/login", data=form, headers={"Referer": self.komand.url})
            return "; ".join(f"{name}={value}" for name, value in dict(browser.cookies).items())

    # Rows

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """What a query gives, read beside the installation."""
        if self._database:
            with psycopg.connect(self._database, autocommit=True, row_factory=psycopg.rows.dict_row) as connection:
                return list(connection.execute(sql).fetchall())  # type: ignore[call-overload]
        path = self.komand.data_dir / "komand.sqlite3"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql)]

    def run(self, run_id: UUID) -> dict[str, Any]:
        return self.rows(f"SELECT * FROM komand_run WHERE id = '{self.key(run_id)}'")[0]

    def executions(self, run_id: UUID) -> list[dict[str, Any]]:
        return self.rows(
            f"SELECT * FROM komand_tool_execution WHERE run_id = '{self.key(run_id)}' ORDER BY step, call_index"
        )

    def answer(self, run_id: UUID) -> dict[str, Any]:
        return self.rows(f"SELECT * FROM komand_turn WHERE is_answer AND run_id = '{self.key(run_id)}'")[0]

    def key(self, row_id: UUID) -> str:
        """How the database writes it."""
        return str(row_id) if self._database else row_id.hex

    def wait_ended(self, run_id: UUID, seconds: float = 60) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            run = self.run(run_id)
            return run if run["status"] in _ENDED else None

        found: dict[str, Any] = wait_for(ended, seconds, f"the end of run {run_id}")
        return found

    def check_invariants(self) -> None:
        """Fails with the lines of the command."""
        found = self.komand.manage("check_invariants", "--grace", "6")
        assert found.returncode == 0, found.stdout + found.stderr

    # Live streams

    @contextmanager
    def valkey(self) -> Iterator["redis.Redis"]:
        folder = self.komand.data_dir / "valkey"
        with redis.Redis(unix_socket_path=(folder / "socket").read_text().strip(), decode_responses=True) as client:
            yield client

    def entries(self, run_id: UUID) -> list[tuple[int, dict[str, Any]]]:
        """(fence, entry) of the run's live stream."""
        with self.valkey() as client:
            found = client.xrange(f"komand:run:{run_id}")
        return [(int(entry_id.split("-")[0]), json.loads(fields["e"])) for entry_id, fields in found]

    def wait_text(self, run_id: UUID, *, fence: int = 1, seconds: float = 30) -> None:
        """Until this claim, or a later one, has said something."""

        def said() -> bool:
            with suppress(redis.exceptions.RedisError):
                return any(number >= fence and entry["type"] == "text.delta" for number, entry in self.entries(run_id))
            return False

        wait_for(said, seconds, f"text of claim {fence}")

    # Breaking

    def pids(self, kind: str) -> list[int]:
        """The processes of a kind: web, runs, tools, tool (a child that runs tools), valkey."""
        note = json.loads((self.komand.data_dir / "supervisor.json").read_text())
        parts = {part["name"]: part["pid"] for part in note["processes"] if part["pid"]}
        if kind == "tool":
            with suppress(psutil.Error, KeyError):
                return [child.pid for child in psutil.Process(parts["tools"]).children()]
            return []
        return [pid for name, pid in parts.items() if name.split("-")[0] == kind]

    def strike(self, kind: str, number: int = signal.SIGKILL, index: int = 0) -> int:
        """Send a signal to a process of that kind; returns its id."""
        found = wait_for(lambda: self.pids(kind), 30, f"a process {kind}")
        pid = found[index % len(found)]
        with suppress(ProcessLookupError):
            psutil.Process(pid).send_signal(number)
        return int(pid)

    def strike_holder(self, run_id: UUID, number: int = signal.SIGKILL) -> int:
        """Send a signal to the process that holds the run; returns its id."""
        owner = UUID(str(self.run(run_id)["owner"]))
        if self._database:
            pid = self.rows(f"SELECT pid FROM komand_process_life WHERE id = '{owner}'")[0]["pid"]
        else:
            pid = json.loads((self.komand.data_dir / "alive" / str(owner)).read_text())["pid"]
        psutil.Process(pid).send_signal(number)
        return int(pid)

    def wait_well(self, seconds: float = 40) -> None:
        wait_for(lambda: self.komand.manage("status").returncode == 0, seconds, "an installation that is well")


@contextmanager
def open_fire(folder: Path, model: ModelServer, database: str = "", **environment: str) -> Iterator[Fire]:
    """Start an installation of its own; stop it at the end, which must go well."""
    extra = {"DATABASE_URL": database} if database else {}
    settings = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "nobody", "KOMAND_MODEL": "fake", **extra}
    komand = start_komand(folder, **settings, **environment)
    fire = Fire(komand, model, database)
    try:
        yield fire
    finally:
        fire.close()
        komand.stop()


@dataclass
class Watching:
    """A page that watches one session and comes back with its cursor whenever the connection breaks or is dropped.

    answers: by run, the text of the answer as the page ends up having it; drops: connections so far.
    """

    fire: Fire
    session_id: UUID
    cookie: str
    answers: dict[str, str] = field(default_factory=dict)
    drops: int = 0
    _cursor: str = ""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _socket: Any = None

    def start(self) -> "Watching":
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def drop(self) -> None:
        """The connection breaks."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.socket.shutdown(2)

    def stop(self) -> None:
        self._stopping.set()
        self.drop()
        if self._thread:
            self._thread.join(10)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            with suppress(OSError, ConnectionClosed, InvalidHandshake, TimeoutError):
                self._watch_once()
            self.drops += 1
            self._stopping.wait(_AGAIN_SECONDS)

    def _watch_once(self) -> None:
        address = self.fire.komand.url.replace("http", "ws", 1)
        url = f"{address}/ws/chat/{self.session_id}?cursor={self._cursor}"
        headers = {"Cookie": self.cookie}
        with connect(url, additional_headers=headers, origin=self.fire.komand.url, open_timeout=5) as socket:  # type: ignore[arg-type]
            self._socket = socket
            while not self._stopping.is_set():
                message = json.loads(socket.recv())
                for act in message.get("acts", []):
                    if act["do"] == "answer":
                        self.answers[act["run"]] = source_of(act["html"])
                self._cursor = message.get("cursor", self._cursor)


def source_of(answer: str) -> str:
    """The text of an answer as the page can copy it; empty when it has none."""
    found = re.search(r'<template class="source">(.*?)</template>', answer, re.DOTALL)
    return html.unescape(found.group(1)) if found else ""
