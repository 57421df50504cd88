"""Connections to a PostgreSQL server behind a gate that can swallow what is sent."""

import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import psycopg
import pytest
from django.db import OperationalError, connection

from audit_app.kernel.ids import new_id
from audit_app.kernel.liveness import pg_locks
from audit_app.kernel.postgresql import watched_connection
from audit_app.kernel.postgresql.base import DatabaseWrapper
from audit_app.kernel.postgresql.watched_connection import WatchedConnection, circuit
from tests.support.live_server import wait_for
from tests.support.tcp_gate import TcpGate

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="needs PostgreSQL"),
]
_POOL = {"connection_class": WatchedConnection, "min_size": 1, "max_size": 2, "timeout": 1, "reconnect_timeout": 0}


@pytest.fixture
def gate() -> Iterator[TcpGate]:
    with TcpGate(int(connection.settings_dict["PORT"])) as gate:
        yield gate
        circuit.is_open = False


@pytest.fixture
def pooled(gate: TcpGate) -> Iterator[DatabaseWrapper]:
    """A connection through the gate, of a pool as the web process has one."""
    options = {**connection.settings_dict["OPTIONS"], "pool": _POOL}
    place = {"HOST": "127.0.0.1", "PORT": gate.port, "OPTIONS": options, "CONN_MAX_AGE": 0}
    wrapper = DatabaseWrapper({**connection.settings_dict, **place}, alias="gated")
    wrapper.inc_thread_sharing()
    yield wrapper
    with suppress(OperationalError):
        wrapper.close()
    wrapper.close_pool()


def test_a_statement_is_waited_for_until_the_circuit_opens(gate: TcpGate, pooled: DatabaseWrapper) -> None:
    failed: list[Exception] = []

    def ask() -> None:
        try:
            with pooled.cursor() as cursor:
                cursor.execute("SELECT 1")
        except OperationalError as error:
            failed.append(error)

    pooled.ensure_connection()
    gate.close_way()
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(0.5)
    assert asking.is_alive()
    circuit.is_open = True
    asking.join(60)
    assert "does not answer" in str(failed[0])
    assert not pooled.is_usable()


def test_no_connection_is_waited_for_while_the_circuit_is_open(gate: TcpGate, pooled: DatabaseWrapper) -> None:
    circuit.is_open = True
    with pytest.raises(OperationalError, match="does not answer"):
        pooled.ensure_connection()
    circuit.is_open = False
    pooled.ensure_connection()


def test_a_heartbeat_without_an_answer_opens_the_circuit_and_the_next_one_closes_it(
    gate: TcpGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_connection, "_SILENT_LOOKS", 3)
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", gate.port)
    mark = pg_locks.PostgresMark(new_id(), "web")
    gate.close_way()
    with pytest.raises(psycopg.OperationalError, match="does not answer"):
        mark.beat(1)
    assert circuit.is_open
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        mark.beat(2)
    gate.open_way()
    wait_for(lambda: _beats(mark), 60, "a heartbeat that is stored")
    assert not circuit.is_open
    mark.close()


def test_an_error_that_the_server_sends_leaves_the_circuit_closed() -> None:
    mark = pg_locks.PostgresMark(new_id(), "web")
    with closing(mark), connection.cursor() as cursor:
        cursor.execute("BEGIN; LOCK TABLE komand_process_life IN ACCESS EXCLUSIVE MODE")
        try:
            with pytest.raises(psycopg.errors.QueryCanceled):
                mark.beat(1)
        finally:
            cursor.execute("ROLLBACK")
        assert not circuit.is_open


def _beats(mark: pg_locks.PostgresMark) -> bool:
    try:
        mark.beat(3)
    except psycopg.OperationalError:
        return False
    return True
