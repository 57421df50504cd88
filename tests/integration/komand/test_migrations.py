"""Migrations beside running processes: killed anywhere and run again, blocked by readers, and by one another."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

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
    names = ["komand_migrations_1", "komand_migrations_2"]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name in names:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')
        yield [f"{postgres_url.rpartition('/')[0]}/{name}" for name in names]
        for name in names:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


KILLER = ("-m", "tests.integration.komand.migration_killer")


@pytest.mark.timeout(600)
def test_a_kill_in_any_migration_and_another_start_end_the_same(tmp_path: Path) -> None:
    *_, expected = run(*KILLER, "0", env=environment(tmp_path / "a")).splitlines()
    *killed, found = run(*KILLER, "1", env=environment(tmp_path / "b")).splitlines()
    assert len(killed) > 50 and found == expected


@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_a_kill_in_any_migration_ends_the_same_on_postgresql(tmp_path: Path, databases: list[str]) -> None:
    *_, expected = run(*KILLER, "0", env=environment(tmp_path, databases[0])).splitlines()
    *killed, found = run(*KILLER, "2", env=environment(tmp_path, databases[1])).splitlines()
    assert len(killed) > 25 and found == expected


@pytest.mark.postgres
def test_a_migration_waits_for_readers_and_holds_up_nobody(tmp_path: Path, databases: list[str]) -> None:
    """Migrate while another transaction has read the table: everybody else still reads it, and the migration succeeds
    when that transaction ends. Two that migrate at the same time do not disturb one another."""
    env = environment(tmp_path, databases[0])
    run("manage.py", "migrate", "-v0", env=env)
    run("manage.py", "migrate", "-v0", "agents_app", "0002", env=env)
    command: list[Any] = [sys.executable, "manage.py", "migrate", "-v0"]
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
