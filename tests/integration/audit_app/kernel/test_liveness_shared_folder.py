"""Hosts must share the data folder: a process that has another one is reported. SQLite is one host."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client

from audit_app.kernel import liveness
from audit_app.kernel.ids import new_id
from audit_app.kernel.liveness import Observer, failure_detector, shared_folder
from audit_app.kernel.liveness.pg_locks import PostgresMark, PostgresMarks
from audit_app.models import ProcessLife
from komand import doctor, fleet
from komand.findings import Finding

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="processes are rows on PostgreSQL alone"),
]
PROCESS = """
import json, logging, sys, time
from django.conf import settings
settings.configure(DATA_DIR=sys.argv[1], KOMAND_S3_BUCKET="", DATABASES={"default": json.loads(sys.argv[2])})
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
from audit_app.kernel import liveness
from audit_app.kernel.liveness import shared_folder
me = liveness.start(sys.argv[3])
while not any(process.id == me and process.has_file for process in liveness.list_processes()):
    time.sleep(0.05)
print("started", flush=True)
for line in sys.stdin:
    print("finds:", shared_folder.describe(liveness.find_strangers()), flush=True)
liveness.stop()
"""


@pytest.fixture
def opened(settings: Any, tmp_path: Path) -> Iterator["Fleet"]:
    fleet_of_test = Fleet(settings, tmp_path)
    fleet_of_test.use("here")
    yield fleet_of_test
    for mark in fleet_of_test.marks:
        mark.close()


class Fleet:
    """Processes with one of two data folders."""

    def __init__(self, settings: Any, parent: Path) -> None:
        self._settings, self._parent = settings, parent
        self.marks: list[PostgresMark] = []

    def use(self, folder: str) -> None:
        """Go on as a process with this data folder."""
        self._settings.DATA_DIR = self._parent / folder

    def start(self, folder: str, name: str = "runs") -> UUID:
        self.use(folder)
        life_id = new_id()
        self.marks.append(mark := PostgresMarks().open(life_id, name))
        mark.beat(1)
        return life_id

    def files(self, folder: str) -> set[str]:
        return {path.name for path in (self._parent / folder / "hosts").iterdir()}


def reported() -> list[Finding]:
    return [finding for finding in doctor.examine() if finding.name == "shared data folder"]


def test_processes_with_one_folder_are_not_reported(opened: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    first, second = opened.start("here"), opened.start("here", "web")
    assert opened.files("here") == {str(first), str(second)}
    assert not reported() and not liveness.find_strangers() and "shared" not in caplog.text


def test_a_process_with_another_folder_logs_it_at_its_start(opened: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    opened.start("here", "web")
    opened.start("copy")
    [line] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "not shared with web on " in line.getMessage() and "KOMAND_DATA_DIR" in line.getMessage()


def test_the_process_that_was_there_first_logs_it_once(
    opened: Fleet, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_detector, "_SWEEP_SECONDS", 0)
    first = opened.start("here", "web")
    opened.start("copy", "tools")
    opened.use("here")
    caplog.clear()
    observer = Observer()
    for _ in range(2):
        observer.comes_first(first)
    [line] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "not shared with tools on " in line.getMessage()


def test_doctor_status_and_readiness_name_it(opened: Fleet, client: Client, valkey: Any) -> None:
    opened.start("here", "web")
    opened.start("copy", "tools")
    opened.use("here")
    [finding] = reported()
    assert not finding.ok and "not shared with tools on " in finding.detail and "KOMAND_DATA_DIR" in finding.mend
    assert [part.name.split("@")[0] for part in fleet.collect() if part.health == "other folder"] == ["tools"]
    ready = client.get("/health/ready")
    assert ready.status_code == 200 and ready.json()["data"]["status"] == "degraded"
    assert "tools on " in ready.json()["data"]["checks"]["data_folder"]


def test_a_process_without_a_file_is_not_reported(opened: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    """A process of the release before writes none, and one on a full disk cannot."""
    (opened._parent / "here").write_text("no folder")
    life_id = opened.start("here", "web")
    assert not ProcessLife.objects.get(pk=life_id).has_file
    opened.start("copy")
    assert not reported() and "not shared" not in caplog.text


def test_processes_with_a_bucket_may_have_other_folders_and_report_one_without(
    opened: Fleet, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.KOMAND_S3_BUCKET = "files"
    opened.start("here", "web")
    opened.start("there", "runs")
    assert not liveness.find_strangers() and "not shared" not in caplog.text
    settings.KOMAND_S3_BUCKET = ""
    opened.start("folder", "tools")
    settings.KOMAND_S3_BUCKET = "files"
    opened.use("here")
    [finding] = reported()
    assert "not shared with tools on " in finding.detail and "KOMAND_S3_BUCKET" in finding.mend


def test_a_copy_with_the_file_of_a_live_process_is_told_by_its_beat(opened: Fleet, tmp_path: Path) -> None:
    opened.start("here", "web")
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    opened.use("copy")
    assert not liveness.find_strangers()
    opened.use("here")
    opened.marks[0].beat(150)
    assert not liveness.find_strangers()
    opened.use("copy")
    assert "not shared with web on " in shared_folder.describe(liveness.find_strangers())


def test_files_of_ended_processes_are_removed(opened: Fleet) -> None:
    ended, killed, alive = opened.start("here"), opened.start("here"), opened.start("here")
    opened.marks[0].close()
    opened.marks[1]._disconnect()
    PostgresMarks().remove([ended, killed, alive])
    assert opened.files("here") == {str(alive)}


def test_a_process_whose_row_was_removed_creates_its_file_again(opened: Fleet) -> None:
    life_id = opened.start("here")
    opened.marks[0]._disconnect()
    PostgresMarks().remove([life_id])
    assert not opened.files("here")
    for count in (2, 3):
        opened.marks[0].beat(count)
    assert opened.files("here") == {str(life_id)} and ProcessLife.objects.get(pk=life_id).has_file
    assert not liveness.find_strangers()


class Process:
    """A process of its own, with the heartbeat alone."""

    def __init__(self, folder: Path, name: str, stack: ExitStack) -> None:
        names = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
        database = {key: connection.settings_dict[key] for key in names}
        command = [sys.executable, "-c", PROCESS, str(folder), json.dumps(database), name]
        self._process = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(self._process.kill)
        self.log = self.read_to("started")

    def read_to(self, start: str) -> str:
        """Return what it printed up to the line with this start."""
        assert self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            lines.append(line)
            if line.startswith(start):
                break
        return "".join(lines)

    def find(self) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.read_to("finds:").removeprefix("finds:").strip()


def test_processes_of_hosts_with_copies_of_one_folder_find_each_other(tmp_path: Path) -> None:
    """The folder was copied while a process of the first host ran, so that the copy has the file of that one."""
    first, second = tmp_path / "first", tmp_path / "second"
    with ExitStack() as stack:
        web = Process(first, "web", stack)
        assert web.log == "started\n" and web.find() == ""
        shutil.copytree(first, second)
        runs = Process(second, "runs", stack)
        assert "not shared with runs on " in web.find()
        tools = Process(first, "tools", stack)
        assert tools.log.startswith("ERROR the data folder") and "not shared with runs on " in tools.log
        assert "not shared with tools on " in runs.find()
