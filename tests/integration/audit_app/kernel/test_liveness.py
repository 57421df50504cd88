"""Heartbeats in files and on PostgreSQL. The lock of a killed process is free, even if a forked child survives."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from django.db import connection

from audit_app.kernel import liveness
from audit_app.kernel.ids import new_id
from audit_app.kernel.liveness import heartbeat
from audit_app.kernel.liveness.file_locks import FileMarks
from audit_app.kernel.liveness.pg_locks import PostgresMarks
from audit_app.kernel.liveness.process_marks import Look, Marks, Traits
from audit_app.kernel.liveness.store import installed_marks
from audit_app.models import ProcessLife
from tests.support.conditions import happens
from tests.support.live_server import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["files", "postgres"])
def marks(request, tmp_path: Path) -> Marks:
    if request.param == "files":
        return FileMarks(tmp_path / "alive")
    if connection.vendor != "postgresql":
        pytest.skip("needs PostgreSQL")
    return PostgresMarks()


@pytest.fixture
def stopped() -> Iterator[None]:
    yield
    liveness.stop()


def test_a_mark_without_its_file_is_created_by_a_later_beat(tmp_path: Path) -> None:
    """The disk may be full when a process starts."""
    folder, life_id = tmp_path / "alive", new_id()
    folder.touch()  # so that no file can be created in it
    mark = FileMarks(folder).open(life_id, "tools")
    with pytest.raises(FileExistsError):
        mark.beat(1)
    folder.unlink()
    mark.beat(2)
    assert FileMarks(folder).look([life_id]) == {life_id: Look(locked=True, beat=2)}
    mark.close()


def test_an_open_mark_is_locked_and_counts(marks):
    life_id = new_id()
    mark = marks.open(life_id, "runs")
    assert marks.look([life_id]) == {life_id: Look(locked=True, beat=0)}
    mark.beat(41)
    assert marks.look([life_id]) == {life_id: Look(locked=True, beat=41)}
    mark.close()


def test_a_blind_process_is_seen_by_all_until_it_can_read_again(marks):
    life_id = new_id()
    mark = marks.open(life_id, "web")
    mark.beat(1, Traits(is_blind=True))
    assert marks.look([]) == {life_id: Look(locked=True, beat=1, traits=Traits(is_blind=True))}
    mark.beat(2)
    assert marks.look([]) == {}
    assert marks.look([life_id]) == {life_id: Look(locked=True, beat=2)}
    mark.close()


def test_a_process_that_sweeps_is_seen_by_all_until_it_ends(marks):
    life_id = new_id()
    mark = marks.open(life_id, "runs")
    mark.beat(1, Traits(sweeps=True))
    assert marks.look([]) == {life_id: Look(locked=True, beat=1, traits=Traits(sweeps=True))}
    mark.beat(2)
    assert marks.look([]) == {}
    mark.close()


def test_a_closed_mark_is_gone(marks):
    life_id = new_id()
    marks.open(life_id, "runs").close()
    assert marks.look([life_id]) == {}


def test_processes_are_listed_with_name_pid_and_host(marks):
    mark = marks.open(life_id := new_id(), "runs")
    [process] = [process for process in marks.list_processes() if process.id == life_id]
    assert (process.name, process.pid, process.alive) == ("runs", os.getpid(), True)
    mark.close()


def test_foreign_files_are_skipped(tmp_path):
    folder = tmp_path / "alive"
    folder.mkdir()
    (folder / "README.txt").write_text("hello")
    assert FileMarks(folder).list_processes() == []


def test_a_removed_mark_is_restored_by_the_next_beat(marks, tmp_path):
    mark = marks.open(life_id := new_id(), "runs")
    if isinstance(marks, FileMarks):
        (tmp_path / "alive" / str(life_id)).unlink()
    else:
        ProcessLife.objects.filter(pk=life_id).delete()
    mark.beat(2)
    assert marks.look([life_id]) == {life_id: Look(locked=True, beat=2)}
    mark.close()


def test_the_mark_of_a_live_process_is_not_removed(marks):
    mark = marks.open(life_id := new_id(), "runs")
    marks.remove([life_id])
    assert life_id in marks.look([life_id])
    mark.close()


def test_a_lost_connection_is_restored_by_a_later_beat():
    if connection.vendor != "postgresql":
        pytest.skip("needs PostgreSQL")
    marks, life_id = PostgresMarks(), new_id()
    mark = marks.open(life_id, "runs")
    with connection.cursor() as cursor:
        cursor.execute(  # of this database alone: other workers' databases are on the same server
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE l.locktype = 'advisory' AND d.datname = current_database()"
        )
    wait_for(lambda: not marks.look([life_id])[life_id].locked, 60, "the lock to be free")
    with pytest.raises(Exception, match="terminat"):
        mark.beat(1)
    mark.beat(2)
    assert marks.look([life_id]) == {life_id: Look(locked=True, beat=2)}
    mark.close()


def test_start_is_idempotent(stopped):
    first = liveness.start("runs")
    assert liveness.start("runs") == first == liveness.current()
    assert [process.id for process in liveness.list_processes() if process.alive] == [first]


def test_a_started_process_beats(stopped, monkeypatch):
    monkeypatch.setattr(heartbeat, "_BEAT_SECONDS", 0.02)
    me = liveness.start("runs")
    marks = installed_marks()
    wait_for(lambda: marks.look([me])[me].beat > 3, 60, "the process to beat")


def test_a_process_that_was_not_started_has_no_id(stopped):
    liveness.stop()
    with pytest.raises(RuntimeError):
        liveness.current()


FORKING = """
import json, os, sys, time
from django.conf import settings
settings.configure(DATA_DIR=sys.argv[1], KOMAND_S3_BUCKET="", DATABASES={"default": json.loads(sys.argv[2])})
from audit_app.kernel import liveness
parent = liveness.start("parent")
if os.fork() == 0:
    print(parent, liveness.start("child"), os.getpid(), flush=True)
time.sleep(60)
"""


def test_a_forked_child_has_a_heartbeat_of_its_own(marks, tmp_path):
    """The lock of the killed parent is free although its forked child survives."""
    database = {"ENGINE": "audit_app.kernel.sqlite", "NAME": ":memory:"}
    if isinstance(marks, PostgresMarks):
        names = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")
        database = {name: connection.settings_dict[name] for name in names}
    command = [sys.executable, "-c", FORKING, str(tmp_path), json.dumps(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        parent_id, child_id, child_pid = parent.stdout.readline().split()
        assert all(look.locked for look in marks.look([UUID(parent_id), UUID(child_id)]).values())
        parent.kill()
        try:
            wait_for(lambda: not marks.look([UUID(parent_id)])[UUID(parent_id)].locked, 60, "the lock to be free")
            assert marks.look([UUID(child_id)])[UUID(child_id)].locked
        finally:
            os.kill(int(child_pid), signal.SIGKILL)


def test_a_process_with_a_blocked_event_loop_does_not_beat(stopped, monkeypatch, caplog) -> None:
    for name, seconds in {"_BEAT_SECONDS": 0.02, "_PULSE_SECONDS": 0.02, "_STUCK_SECONDS": 0.2}.items():
        monkeypatch.setattr(heartbeat, name, seconds)
    beats: list[int] = []

    def notices() -> int:
        return caplog.text.count("is blocked")

    liveness.start("runs")
    monkeypatch.setattr(heartbeat._heartbeat.mark, "beat", lambda count, traits: beats.append(count))

    async def work() -> None:
        pulse = asyncio.create_task(liveness.keep_pulse())
        await asyncio.sleep(0)  # the first pulse
        noticed = count = 0
        while len(beats) == count or notices() > noticed:  # until it beats, on a machine that is not blocked itself
            noticed, count = notices(), len(beats)
            await asyncio.sleep(0.05)  # longer than a beat
        # No await: this loop is blocked, and the heartbeat thread notices it.
        wait_for(lambda: notices() > noticed, 60, "the notice")
        assert liveness.is_stuck()
        count = len(beats)
        time.sleep(0.1)  # the time in which it would beat
        assert len(beats) == count
        await happens(lambda: not liveness.is_stuck() and len(beats) > count, 10)
        pulse.cancel()

    asyncio.run(work())
