"""A backup that is made while messages arrive is restored whole, and nothing that was pending happens twice."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import on_postgres
from tests.support.live_server import ROOT, clean_environment

# A dozen commands, each a process, as long as a whole installation.
pytestmark = [pytest.mark.whole, pytest.mark.timeout(600)]

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")


@dataclass
class Installation:
    """An installation that does not run. environment: of its commands."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, code: int = 0, cwd: Path = ROOT, logs: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=cwd, env=self._environment(), capture_output=True, text=True, timeout=100
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + (done.stderr if code or logs else "")

    def manage(self, *arguments: str, code: int = 0, logs: bool = False) -> str:
        return self.run("manage.py", *arguments, code=code, logs=logs)

    def show(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("-m", "tests.support.backup_program", "show"))
        return found

    def write(self) -> "subprocess.Popen[str]":
        """Start to write."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.backup_program", "write"],
            cwd=ROOT,
            env=self._environment(),
            stdout=subprocess.PIPE,
            text=True,
        )

    def _environment(self) -> dict[str, str]:
        # No broker answers there: commands need none.
        return clean_environment(
            **{"KOMAND_DATA_DIR": str(self.folder), "REDIS_URL": f"unix://{self.folder}/none"} | self.environment
        )


def _installation(folder: Path, name: str) -> Installation:
    url = os.environ.get(on_postgres.VARIABLE)
    if not url:
        return Installation(folder / name)
    database = f"komand_backup_{name}_{WORKER}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{database}"')
    return Installation(folder / name, {"DATABASE_URL": f"{url.rpartition('/')[0]}/{database}"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backup")


@pytest.fixture(scope="module")
def accepted() -> list[str]:
    """Return the runs that had been accepted before the backup began."""
    return []


@pytest.fixture(scope="module")
def backup(folder: Path, accepted: list[str]) -> Path:
    old = _installation(folder, "old")
    old.manage("prepare")
    old.run("-m", "tests.support.backup_program", "fill")
    (old.folder / "prompts").mkdir()
    (old.folder / "prompts" / "of-mine.md").write_text("A prompt.")
    writer = old.write()
    try:
        assert writer.stdout
        accepted += [writer.stdout.readline().strip() for _ in range(10)]
        assert "Backed up and verified" in old.manage("backup", str(folder / "backup"))
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()
    return folder / "backup"


def test_a_backup_of_a_busy_installation_is_restored_whole(backup, folder, accepted):
    new = _installation(folder, "new")
    out = new.manage("restore", str(backup), logs=True)
    assert "Restored and verified" in out and "2 deliveries that were pending" in out
    assert len(out.splitlines()) == 2, out  # no warning that Valkey, which does not run yet, gets no hints
    found = new.show()
    assert set(accepted) <= set(found["run_ids"])
    assert (found["artifact"], found["credential"]) == ("content", "secret value")
    assert (new.folder / "prompts" / "of-mine.md").read_text() == "A prompt."
    assert found["key"] == (backup / "secrets" / "receipts.key").read_text()
    # Nothing that was pending is repeated: it is reported.
    assert found["runs"] == ["failed"] and "restored from a backup" in found["errors"][0]
    assert found["deliveries"] == {"key-pending": "unknown", "key-sending": "unknown", "key-sent": "sent"}
    new.manage("check_invariants", "--grace", "0")
    assert "unbroken" in new.manage("verify_receipts")


def test_what_was_pending_goes_on_if_the_operator_asks_for_it(backup, folder):
    new = _installation(folder, "resumed")
    new.manage("restore", "--resume", str(backup))
    found = new.show()
    assert found["runs"] == ["queued"]
    assert found["deliveries"]["key-pending"] == "pending"


def test_the_paths_of_a_restore_are_those_of_the_folder_it_is_run_in(backup, folder):
    new = _installation(folder, "relative")
    new.environment["KOMAND_DATA_DIR"] = "relative"
    out = new.run(str(ROOT / "manage.py"), "restore", str(backup), cwd=folder)
    assert "2 deliveries that were pending" in out
    assert not (ROOT / "relative").exists()


def test_an_interrupted_restore_starts_nothing_until_it_is_repeated(backup, folder):
    new = _installation(folder, "interrupted")
    new.environment["KOMAND_JWT_KEY"] = "too short for a start"
    assert "run the restore again" in new.manage("restore", str(backup), code=1)
    del new.environment["KOMAND_JWT_KEY"]
    assert "was interrupted" in new.manage("prepare", code=1)
    assert "2 deliveries that were pending" in new.manage("restore", str(backup))
    assert new.show()["runs"] == ["failed"]
    new.manage("prepare")
    assert "has data" in new.manage("restore", str(backup), code=1)


def test_an_installation_with_data_is_not_overwritten(backup, folder):
    other = _installation(folder, "other")
    other.manage("prepare")
    assert "has data" in other.manage("restore", str(backup), code=1)


def test_a_damaged_backup_is_refused(backup, folder):
    other = _installation(folder, "empty")
    (extra := backup / "extra").write_text("x")
    assert "extra is not part of it" in other.manage("restore", str(backup), code=1)
    extra.unlink()
    manifest = (backup / "manifest.json").rename(folder / "manifest.json")
    assert "not a complete backup" in other.manage("restore", str(backup), code=1)
    manifest.rename(backup / "manifest.json")


def test_a_backup_of_nothing_is_refused(folder):
    nothing = _installation(folder, "nothing")
    assert "contains no installation" in nothing.manage("backup", str(folder / "of-nothing"), code=1)


def test_a_backup_holds_secrets_for_its_owner_alone(backup):
    assert {name.name for name in (backup / "secrets").iterdir()} >= {"vault.key", "receipts.key", "django.key"}
    assert not [path for path in (backup, *backup.rglob("*")) if path.stat().st_mode & 0o077]
