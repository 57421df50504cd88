"""`manage.py status` on an installation whose processes run without a supervisor of ours, such as units of systemd."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from audit_app.kernel.ids import new_id
from audit_app.kernel.liveness.file_locks import FileMarks
from tests.support.live_server import ROOT, clean_environment

pytestmark = pytest.mark.whole  # each status is a process that starts

HOST = socket.gethostname()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a data folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="komand-") as path:
        (Path(path) / "alive").mkdir()
        yield Path(path)


def run(command: str, folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    arguments = [sys.executable, "manage.py", command, "--data-dir", str(folder), *options]
    return subprocess.run(arguments, cwd=ROOT, env=clean_environment(), capture_output=True, text=True)


def status(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return run("status", folder, *options)


def test_processes_without_a_supervisor_are_named(folder: Path) -> None:
    marks = FileMarks(folder / "alive")
    with ExitStack() as running, socket.socket(socket.AF_UNIX) as sockets:
        for name in ("web", "runs", "runs", "tools"):
            running.enter_context(closing(marks.open(new_id(), name)))
        sockets.bind(str(folder / "sockets.sock"))
        sockets.listen()
        found = status(folder)
        parts = json.loads(status(folder, "--json").stdout)["processes"]
    assert found.returncode == 0 and "is not running" not in found.stdout and "without a supervisor" in found.stdout
    assert [part["name"] for part in parts] == [
        f"{name}@{HOST}" for name in ("web", "runs", "runs", "tools", "sockets")
    ]
    assert {part["pid"] for part in parts} == {os.getpid()} and all(part["memory_bytes"] for part in parts)


def test_a_kind_of_process_that_is_missing_is_down(folder: Path) -> None:
    with closing(FileMarks(folder / "alive").open(new_id(), "web")):
        found = status(folder, "--json")
    report = json.loads(found.stdout)
    assert found.returncode == 1 and report["running"]
    assert {part["name"]: part["health"] for part in report["processes"]} == {
        f"web@{HOST}": "ok",
        "runs": "down",
        "tools": "down",
    }


def test_processes_that_have_ended_do_not_run(folder: Path) -> None:
    FileMarks(folder / "alive").open(new_id(), "web").close()
    (folder / "sockets.sock").touch()
    found = status(folder)
    assert found.returncode == 3 and "is not running" in found.stdout


def test_an_installation_that_never_started_stays_as_it_is(tmp_path: Path) -> None:
    assert status(tmp_path).returncode == 3 and not any(tmp_path.iterdir())


def test_a_restart_without_a_supervisor_names_the_processes_and_what_restarts_them(folder: Path) -> None:
    with closing(FileMarks(folder / "alive").open(new_id(), "web")):
        found = run("restart", folder)
    assert found.returncode == 1 and "is not running" not in found.stdout
    assert f"web@{HOST}" in found.stdout and "systemctl restart" in found.stdout


def test_a_restart_of_nothing_says_so(folder: Path) -> None:
    found = run("restart", folder)
    assert found.returncode == 3 and "is not running" in found.stdout
