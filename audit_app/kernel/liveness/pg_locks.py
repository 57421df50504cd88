"""Marks on PostgreSQL: a row per process, and an advisory lock on a connection that is used for nothing else."""

import logging
import os
import socket
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import psycopg
from django.db import connection as django_connection
from django.db import connections, transaction

from audit_app.kernel.liveness import shared_folder
from audit_app.kernel.liveness.process_marks import Look, ProcessView, Traits
from audit_app.kernel.postgresql.watched_connection import HeartbeatConnection, circuit

logger = logging.getLogger(__name__)

_BEAT = """
    INSERT INTO komand_process_life (id, name, host, pid, lock_key, beat, has_file, is_blind, sweeps, started_at)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, now())
    ON CONFLICT (id) DO UPDATE SET
        beat = excluded.beat, has_file = excluded.has_file, is_blind = excluded.is_blind, sweeps = excluded.sweeps
"""
# `pg_locks` shows a bigint advisory lock as two halves of 32 bits, with objsubid 1.
_LOCKED = """
    lock_key IN (
        SELECT classid::bigint << 32 | objid::bigint FROM pg_locks
        WHERE locktype = 'advisory' AND objsubid = 1 AND granted
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
"""
_LOOK = (
    f"SELECT id, {_LOCKED}, beat, is_blind, sweeps FROM komand_process_life WHERE id = ANY(%s) OR is_blind OR sweeps"  # noqa: S608
)
_LIST = f"SELECT id, name, pid, host, {_LOCKED}, has_file, beat FROM komand_process_life ORDER BY started_at, id"  # noqa: S608
# The lock is held until the files are removed, so that a process that connects again meanwhile creates its file later.
_REMOVE = f"""
    DELETE FROM komand_process_life WHERE id = ANY(%s) AND NOT {_LOCKED} AND pg_try_advisory_xact_lock(lock_key)
    RETURNING id
"""  # noqa: S608

# A broken network must not stop the beat for longer than observers tolerate.
_LIMITS = {"connect_timeout": 2, "tcp_user_timeout": 3000}
_STATEMENT_LIMIT = "-c statement_timeout=3000"

_abandoned: list[psycopg.Connection[Any]] = []


class PostgresMark:
    """A lost connection frees the lock: the next beat connects and locks again."""

    def __init__(self, life_id: UUID, name: str) -> None:
        self._id = life_id
        self._lock_key = life_id.int & (2**63 - 1)
        self._columns = (life_id, name, socket.gethostname(), os.getpid(), self._lock_key)
        self._connection: psycopg.Connection[Any] | None = None
        self._is_locked = self._has_file = False
        try:
            self.beat(0)
            shared_folder.log_new(shared_folder.find_strangers(self._list(), self._list))
        except psycopg.Error as error:
            logger.warning("the heartbeat starts without its database: %s", error)

    def beat(self, count: int, traits: Traits = Traits()) -> None:  # noqa: B008 - frozen
        values = (*self._columns, count, self._has_file, traits.is_blind, traits.sweeps)
        try:
            self._connected().execute(_BEAT, values)
            self._take_lock(count)
        except psycopg.Error as error:
            circuit.is_open = not _is_answer(error, self._connection)
            self._disconnect()
            raise
        if circuit.is_open:
            circuit.is_open = False
            _renew_pool()
        if self._has_file and count % shared_folder.WRITTEN_EACH == 0:
            shared_folder.write_file(self._id, count)

    def close(self) -> None:
        try:
            self._connected().execute("DELETE FROM komand_process_life WHERE id = %s", (self._id,))
        except psycopg.Error as error:
            logger.info("the row of this process is left for an observer to remove: %s", error)
        else:
            shared_folder.remove_files([self._id])
        self._disconnect()
        circuit.is_open = False

    def abandon(self) -> None:
        circuit.is_open = False
        if self._connection is not None:
            # Not `close()`, which would end the session of the parent's connection. The object must outlive this call:
            # the driver warns of connections that were never closed.
            os.close(self._connection.fileno())
            _abandoned.append(self._connection)

    def _list(self) -> list[ProcessView]:
        return [ProcessView(*row) for row in self._connected().execute(_LIST)]

    def _connected(self) -> "psycopg.Connection[Any]":
        if self._connection is None:
            wanted = {"options": _STATEMENT_LIMIT, **connections["default"].get_connection_params(), **_LIMITS}
            wanted.pop("cursor_factory")
            wanted.pop("context")
            self._connection = HeartbeatConnection.connect(**wanted, autocommit=True)
        return self._connection

    def _take_lock(self, count: int) -> None:
        """Take the lock if it is free. The server may still hold it for the broken connection: do not wait.

        The file is created under the lock, since observers remove it without; the next beat stores that it is there.
        """
        if not self._is_locked:
            row = self._connected().execute("SELECT pg_try_advisory_lock(%s)", (self._lock_key,)).fetchone()
            self._is_locked = bool(row and row[0])
            self._has_file = self._is_locked and shared_folder.write_file(self._id, count)

    def _disconnect(self) -> None:
        connection, self._connection, self._is_locked = self._connection, None, False
        self._has_file = False
        if connection is not None:
            connection.close()


def _is_answer(error: psycopg.Error, connection: "psycopg.Connection[Any] | None") -> bool:
    """Return whether the server sent the error: it refused the connection for a reason of its own, or a statement."""
    return "FATAL" in str(error) if connection is None else not connection.closed


def _renew_pool() -> None:
    """Replace the connections of the process's pool, which the outage has broken: each would fail a request."""
    pool = getattr(connections["default"], "pool", None)
    if pool is not None:
        pool.drain()


class PostgresMarks:
    """Marks that are read through the caller's Django connection."""

    def open(self, life_id: UUID, name: str) -> PostgresMark:
        return PostgresMark(life_id, name)

    def look(self, ids: Iterable[UUID]) -> dict[UUID, Look]:
        with django_connection.cursor() as cursor:
            cursor.execute(_LOOK, [list(ids)])
            return {
                life_id: Look(locked, beat, Traits(*traits)) for life_id, locked, beat, *traits in cursor.fetchall()
            }

    def list_processes(self) -> list[ProcessView]:
        with django_connection.cursor() as cursor:
            cursor.execute(_LIST)
            return [ProcessView(*row) for row in cursor.fetchall()]

    def remove(self, ids: Iterable[UUID]) -> None:
        gone = list(ids)
        if gone:
            with transaction.atomic(), django_connection.cursor() as cursor:
                cursor.execute(_REMOVE, [gone])
                shared_folder.remove_files(life_id for (life_id,) in cursor.fetchall())
