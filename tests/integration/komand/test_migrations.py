"""Migrations beside running processes: killed anywhere and run again, blocked by readers, and by one another."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.architecture.test_migrations import RELEASED
from tests.support.live_server import ROOT, clean_environment, wait_for

pytestmark = [pytest.mark.whole, pytest.mark.one_database]


def environment(folder: Path, url: str = "") -> dict[str, str]:
    given = {"DATABASE_URL": url} if url else {}
    return clean_environment(KOMAND_DATA_DIR=str(folder), DJANGO_SETTINGS_MODULE="komand.settings.web", **given)


def run(*arguments: str, env: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def databases(postgres_url: str) -> Iterator[list[str]]:
    """Yield the URLs of two empty databases."""
    names = [f"komand_migrations_{os.getpid()}_{number}" for number in (1, 2)]  # tests run beside one another
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name in names:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')
        yield [f"{postgres_url.rpartition('/')[0]}/{name}" for name in names]
        for name in names:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


KILLER = ("-m", "tests.integration.komand.migration_killer")
# Migrates by the files that the squashed ones replace.
REPLACED = ("-m", "tests.support.replaced_migrations", "migrate", "-v0")
MIGRATE = ("manage.py", "migrate", "-v0")
RELEASE = [f"{app}:{RELEASED[app]}" for app in ("audit_app", "tools_app", "agents_app", "sessions_app")]
BEGUN = ["agents_app:0015", "tools_app:0018"]  # one app in between, one at its end, two not begun


@pytest.mark.timeout(900)
def test_a_kill_in_any_migration_and_another_start_end_the_same(tmp_path: Path) -> None:
    """A new database, and one that goes through all migrations that the squashed ones replace, get the same schema."""
    *_, expected = run(*KILLER, "0", env=environment(tmp_path / "a")).splitlines()
    *killed, found = run(*KILLER, "5", env=environment(tmp_path / "b")).splitlines()  # one transaction
    assert len(killed) > 7 and found == expected
    *killed, found = run(*KILLER, "1", "replaced", env=environment(tmp_path / "c")).splitlines()
    assert len(killed) > 100 and found == expected


@pytest.mark.parametrize("older", [RELEASE, BEGUN], ids=["release", "begun"])
def test_an_older_installation_goes_on_with_the_migrations_that_it_lacks(tmp_path: Path, older: list[str]) -> None:
    expected = run(*KILLER, "0", env=environment(tmp_path / "new"))
    assert run(*KILLER, "0", "replaced", *older, env=environment(tmp_path / "old")) == expected


@pytest.mark.postgres
@pytest.mark.timeout(900)
def test_a_kill_in_any_migration_ends_the_same_on_postgresql(tmp_path: Path, databases: list[str]) -> None:
    *killed, expected = run(*KILLER, "5", env=environment(tmp_path, databases[0])).splitlines()
    assert len(killed) > 7
    *killed, found = run(*KILLER, "2", "replaced", env=environment(tmp_path, databases[1])).splitlines()
    assert len(killed) > 50 and found == expected


@pytest.mark.postgres
def test_an_older_installation_goes_on_on_postgresql(tmp_path: Path, databases: list[str]) -> None:
    expected = run(*KILLER, "0", env=environment(tmp_path, databases[0]))
    assert run(*KILLER, "0", "replaced", *RELEASE, env=environment(tmp_path, databases[1])) == expected


@pytest.mark.postgres
def test_a_migration_waits_for_readers_and_holds_up_nobody(tmp_path: Path, databases: list[str]) -> None:
    """Migrate while another transaction has read the table: everybody else still reads it, and the migration succeeds
    when that transaction ends. Two that migrate at the same time do not disturb one another."""
    env = environment(tmp_path, databases[0])
    run(*REPLACED, "agents_app", "0002", env=env)
    command: list[Any] = [sys.executable, *MIGRATE]
    with psycopg.connect(databases[0]) as reader, psycopg.connect(databases[0], autocommit=True) as other:
        reader.execute("SELECT count(*) FROM komand_run")
        log = tmp_path / "log.txt"
        with log.open("w") as out:
            migrating = [subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=out) for _ in range(2)]
        wait_for(lambda: "waits for tables that others use" in log.read_text(), 60, "a migration that waits")
        other.execute("SET statement_timeout = '30s'")
        other.execute("SELECT count(*) FROM komand_run")
        reader.rollback()
        for process in migrating:
            assert process.wait() == 0
    assert not run("manage.py", "migrate", "--plan", env=env).count("agents_app")


@pytest.mark.postgres
@pytest.mark.parametrize("tables", [("komand_turn", "komand_schedule"), ("komand_schedule", "komand_turn")])
def test_tables_that_are_never_free_are_altered(tmp_path: Path, databases: list[str], tables: tuple[str, str]) -> None:
    """Migrate while transactions of 0.7 s overlap without a gap and use both tables: the third attempt succeeds at the
    latest, and no transaction is ended by a deadlock."""
    env = environment(tmp_path, databases[0])
    run(*MIGRATE, env=env)
    run(*MIGRATE, "sessions_app", "0035", env=env)
    command = [sys.executable, *MIGRATE, "sessions_app", "0036"]
    with busy_tables(databases[0], tables, seconds=0.35) as ended:
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        before = len(ended)
        wait_for(lambda: len(ended) > before + 8, 60, "transactions after the migration")
    assert done.returncode == 0 and set(ended) == {""}
    assert 1 <= done.stderr.count("waits for tables that others use") <= 3


KILLED_BEFORE_VALIDATION = """
import os, sys
from unittest import mock
from django.core.management import execute_from_command_line
with mock.patch("komand.foreign_keys.validate", lambda connection: os._exit(9)):
    execute_from_command_line(["manage.py", "migrate", "-v0"])
"""
KEYS = "SELECT convalidated, count(*) FROM pg_constraint WHERE contype = 'f' GROUP BY 1 ORDER BY 1"


@pytest.mark.postgres
def test_foreign_keys_of_busy_tables_are_validated_after_the_migration(tmp_path: Path, databases: list[str]) -> None:
    """Migrate from the release before while transactions of 0.7 s use the tables, killed when all is migrated: the keys
    of tables that existed are not validated, those of new ones are. `prepare`, which has nothing to migrate, validates
    them while the tables stay busy."""
    env = environment(tmp_path, databases[0])
    for target in RELEASE:
        run(*REPLACED, *target.split(":"), env=env)
    tables = ("komand_attachment", "komand_run")
    with busy_tables(databases[0], tables, seconds=0.35) as ended, psycopg.connect(databases[0]) as other:
        done = subprocess.run([sys.executable, "-c", KILLED_BEFORE_VALIDATION], cwd=ROOT, env=env, capture_output=True)
        assert done.returncode == 9, done.stderr.decode()[-2000:]
        counts = dict(other.execute(KEYS).fetchall())
        assert counts[False] >= 5 and counts[True] > counts[False]
        other.rollback()
        run("manage.py", "prepare", env=env)
        assert list(dict(other.execute(KEYS).fetchall())) == [True]
        assert set(ended) == {""}


@contextmanager
def busy_tables(url: str, tables: tuple[str, ...], seconds: float) -> Iterator[list[str]]:
    """Write to the tables, one after the other, in overlapping transactions. Yields the error of each ended one."""
    ended: list[str] = []
    stopping = threading.Event()

    def write(connection: Any) -> None:
        with connection.transaction():
            for table in tables:
                connection.execute(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
                connection.execute("SELECT pg_sleep(%s)", [seconds])

    def repeat() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stopping.is_set():
                try:
                    write(connection)
                    ended.append("")
                except psycopg.Error as error:
                    ended.append(repr(error))

    threads = [threading.Thread(target=repeat) for _ in range(8)]
    for number, thread in enumerate(threads):
        thread.start()
        if number + 1 < len(threads):
            stopping.wait(2 * seconds / len(threads))
    try:
        wait_for(lambda: len(ended) >= len(threads), 60, "transactions under way")
        yield ended
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
