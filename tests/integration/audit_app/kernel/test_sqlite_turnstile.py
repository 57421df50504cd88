"""Writers on SQLite queue for a lock and release it in every case."""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError, connection, transaction
from django.db.utils import ConnectionHandler

from audit_app.kernel.sqlite.base import DatabaseWrapper
from audit_app.models import TimelineHead

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite_only]


@pytest.fixture
def other() -> Iterator[DatabaseWrapper]:
    """A second connection to the same database."""
    wrapper = ConnectionHandler({"default": connection.settings_dict})["default"]
    yield wrapper
    wrapper.close()


def is_free(database: Path | None = None) -> bool:
    descriptor = os.open(f"{database or connection.settings_dict['NAME']}.turn", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_a_transaction_holds_the_lock_until_it_commits():
    with transaction.atomic():
        assert not is_free()
    assert is_free()


def test_a_savepoint_does_not_release_the_lock():
    with transaction.atomic():
        with pytest.raises(ValueError, match="rolled back"), transaction.atomic():
            raise ValueError("rolled back")
        assert not is_free()
    assert is_free()


def test_a_rollback_releases_the_lock():
    with pytest.raises(ValueError, match="rolled back"), transaction.atomic():
        raise ValueError("rolled back")
    assert is_free()


def test_closing_within_a_transaction_releases_the_lock():
    with transaction.atomic():
        TimelineHead.objects.create(session_id="0" * 32, seq=1, ts=1)
        connection.close()
        assert is_free()
    assert not TimelineHead.objects.exists()


def test_a_transaction_that_cannot_begin_releases_the_lock(monkeypatch):
    def fail(self):
        raise OperationalError("database is locked")

    monkeypatch.setattr("django.db.backends.sqlite3.base.DatabaseWrapper._start_transaction_under_autocommit", fail)
    with pytest.raises(OperationalError), transaction.atomic():
        pass
    assert is_free()


def test_threads_queue_too(other):
    entered = threading.Event()

    def write() -> None:
        with other.cursor() as cursor:
            other.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
            cursor.execute("DELETE FROM komand_event")
            entered.set()
            other.commit()
            other.set_autocommit(True)

    other.inc_thread_sharing()
    thread = threading.Thread(target=write)
    with transaction.atomic():
        thread.start()
        assert not entered.wait(0.1)
    thread.join(30)
    assert entered.is_set() and is_free()


FORKING = """
import os, sys, time
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "audit_app.kernel.sqlite", "NAME": sys.argv[1]}})
from django.db import transaction
with transaction.atomic():
    if os.fork() == 0:
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


def test_a_forked_child_does_not_keep_the_lock_of_a_dead_parent(tmp_path: Path):
    database = tmp_path / "own.sqlite3"
    parent = subprocess.Popen([sys.executable, "-c", FORKING, str(database)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert not is_free(database)
    parent.kill()
    parent.wait(30)
    free = is_free(database)
    os.kill(child, 9)
    parent.stdout.close()
    assert free
