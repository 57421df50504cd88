"""The course of an upgrade under load, and what has to hold at its end."""

import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from tests.fakes.model_server import ModelServer
from tests.support.live_server import ROOT, wait_for
from tests.support.postgres import open_postgres
from tests.support.units import Units, own_valkey
from tests.upgrade.releases import Commands, Deployment, Embedded, environment_of, export
from tests.upgrade.traffic import Account, Api, Ledger, Traffic

DATABASES = ("sqlite", "postgres")
# The release that the last review examined: its migrations deadlocked, its successors refused its messages.
REVISION = "c9cc3dc"
_MESSAGES = 3  # of each client in each part
_OPEN_SECONDS = 150
_MIGRATED_SECONDS = 600  # the old processes and their clients use the processor meanwhile, and perhaps other tests
_PEOPLE = """
from django.contrib.auth.models import User
for name in ("alice", "bob"):
    User.objects.create_user(name, f"{name}@localhost", "{password}")
"""
_PASSWORD = "a-long-pass-phrase-7"
_UNITS = ("komand-web", "komand-tools", "komand-runs@1", "komand-runs@2")
_READS = ("/api/sessions", "/v1/models", "/api/v1/agents")


@dataclass
class Proof:
    """An installation of the release before, with its clients. database: the URL, empty for SQLite."""

    old: Path
    deployment: Deployment
    commands: Commands
    data: Path
    database: str
    ledger: Ledger
    people: dict[str, Account]

    # Parts

    def run(self) -> str:
        """Upgrade, go back, upgrade again. Return a summary. Raises AssertionError with all problems."""
        self.deployment.start(self.old)
        admin_key = self._make_people()
        traffic = Traffic(self.deployment.url, self.ledger, self.people, admin_key)
        try:
            traffic.pass_by(_MESSAGES)
            self._say("migrating beside the old processes, killed twice")
            counts = [self._count_migrations(), self._kill_prepare(1), self._kill_prepare(4)]
            self.commands.run(ROOT, "prepare", seconds=_MIGRATED_SECONDS)
            counts.append(self._count_migrations())
            self._pass(traffic, "the old processes on the new schema")
            self._replace(ROOT)
            self._pass(traffic, "the new processes")
            self._replace(self.old)
            self._pass(traffic, "the old processes again")
            self._replace(ROOT)
            self._pass(traffic, "the new processes again")
        finally:
            traffic.stop()
        self._judge()
        self._examine(ROOT)
        return (
            f"{len(self.ledger.accepted)} messages, each answered once; none refused; {len(self.ledger.cuts)} tries met"
            f" a restart; the longest wait was {max(self.ledger.waits):.1f} s; migrations: {counts}"
        )

    def _pass(self, traffic: Traffic, what: str) -> None:
        traffic.pass_by(_MESSAGES)
        self._read_with_old_credentials()
        self.deployment.check()
        self._say(f"{what}: {len(self.ledger.accepted)} messages accepted, {len(self.ledger.problems)} problems")

    def _replace(self, code: Path) -> None:
        begun = time.monotonic()
        with self.ledger.restart():
            self.deployment.replace(code)
        self._say(f"replaced in {time.monotonic() - begun:.1f} s")

    def _kill_prepare(self, wait: int) -> int:
        """Kill `prepare` after so many of its migrations. Return how many are applied then."""
        before = self._count_migrations()
        process = self.commands.start(ROOT, "prepare")
        try:
            wait_for(
                lambda: self._count_migrations() >= before + wait, _MIGRATED_SECONDS, f"{wait} migrations", every=0.01
            )
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        return self._count_migrations()

    def _make_people(self) -> str:
        """Create users with the credentials of the old release. Return an API key of admin."""
        self.commands.run(self.old, "shell", "-c", _PEOPLE.replace("{password}", _PASSWORD))
        for name in ("alice", "bob"):
            key = self.commands.run(self.old, "create_api_key", "--user", name, "--name", name).strip()
            self.people[name] = Account(name, _PASSWORD, key, Api(self.deployment.url).issue_token(key))
        made = Api(self.deployment.url).client.post(
            "/api/agents",
            json={"agentId": "alices", "name": "Agent of Alice"},
            headers={"Authorization": f"Bearer {self.people['alice'].key}"},
        )
        assert made.status_code < 300, made.text
        given = ("create_api_key", "--user", "admin", "--name", "shop", "--scope", "senders:any")
        return self.commands.run(self.old, *given).strip()

    def _read_with_old_credentials(self) -> None:
        api = Api(self.deployment.url)
        for account in self.people.values():
            for path in _READS:
                for kind, credential in (("key", account.key), ("token", account.token)):
                    status = api.get(path, credential)
                    if status != 200:
                        self.ledger.problems.append(f"GET {path} with the {kind} of {account.name}: {status}")

    # Ends

    def _judge(self) -> None:
        wait_for(lambda: not self._open_runs(), _OPEN_SECONDS, "the end of all runs", every=0.5)
        questions = self._rows("SELECT run_id, content FROM komand_turn WHERE role = 'user'")
        answers = self._rows("SELECT run_id, content FROM komand_turn WHERE is_answer")
        runs = {_key(row["id"]): row for row in self._rows("SELECT id, status, error_code FROM komand_run")}
        texts = Counter(row["content"] for row in questions)
        run_of = {row["content"]: _key(row["run_id"]) for row in questions}
        answered = Counter(_key(row["run_id"]) for row in answers)
        answer_of = {_key(row["run_id"]): row["content"] for row in answers}
        found = list(self.ledger.problems)
        for message in self.ledger.accepted:
            run = run_of.get(message.text)
            if texts[message.text] != 1 or run is None or answered[run] != 1:
                found.append(
                    f"{message.key} is stored {texts[message.text]} times, answered {answered[run or '']} times"
                )
            elif message.answer not in (None, answer_of[run]):
                found.append(f"{message.key} was answered by {answer_of[run]!r}")
        found += [f"run {key} ended as {run}" for key, run in runs.items() if run["status"] != "completed"]
        assert not found, f"{len(found)} problems:\n" + "\n".join(found[:30])

    def _examine(self, code: Path) -> None:
        self.commands.run(code, "check_invariants", "--grace", "15")
        self.commands.run(code, "doctor")

    def _open_runs(self) -> list[dict[str, Any]]:
        return self._rows("SELECT id FROM komand_run WHERE ended_at IS NULL")

    def _count_migrations(self) -> int:
        return int(self._rows("SELECT count(*) AS count FROM django_migrations")[0]["count"])

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        if self.database:
            with psycopg.connect(self.database, autocommit=True, row_factory=psycopg.rows.dict_row) as connection:
                return list(connection.execute(sql).fetchall())  # type: ignore[call-overload]
        path = self.data / "komand.sqlite3"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql)]

    def _say(self, line: str) -> None:
        sys.stdout.write(f"  {time.strftime('%X')} {line}\n")
        sys.stdout.flush()


def _key(value: object) -> str:
    return UUID(str(value)).hex


@contextmanager
def open_proof(folder: Path, database: str, revision: str = REVISION) -> Iterator[Proof]:
    """Write the old release into the folder and prepare an installation of it, which is stopped at the end.

    database: one of DATABASES. SQLite stands for `manage.py up`, PostgreSQL for the units of a server. Raises
    UnknownRevision.
    """
    old = export(revision, folder / "old")
    data = folder / "data"
    is_server = database == "postgres"
    with (
        open_postgres(synchronous_commit="on") if is_server else nullcontext() as server,
        own_valkey(folder) if is_server else nullcontext() as valkey,
        ModelServer() as model,
    ):
        given = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "nobody", "KOMAND_MODEL": "fake"}
        url = server.url if server else ""
        commands = Commands(environment_of(data, **given, **({"DATABASE_URL": url} if url else {})))
        if valkey:
            commands.environment["REDIS_URL"] = f"unix://{valkey}?db=0"
        settings = {name: value for name, value in commands.environment.items() if name != "DJANGO_SETTINGS_MODULE"}
        units = Units(folder, settings, _UNITS) if valkey else None
        deployment: Deployment = units or Embedded(commands, folder)
        proof = Proof(old, deployment, commands, data, url, Ledger(), {})
        try:
            yield proof
        finally:
            deployment.stop()


def run_proof(
    folder: Path, database: str, revision: str = REVISION, show: Callable[[str], Any] = sys.stdout.write
) -> None:
    """Run it and show its summary. Raises AssertionError, UnknownRevision."""
    show(f"\nupgrade of {revision} on {database}\n")
    with open_proof(folder, database, revision) as proof:
        show(f"  {proof.run()}\n")
