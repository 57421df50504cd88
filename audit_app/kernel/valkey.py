"""Clients of Redis/Valkey. No other module opens connections to it (Celery and Channels have their own)."""

import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import redis
import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError, ResponseError

from audit_app.kernel.circuit_breaker import Breaker

logger = logging.getLogger(__name__)

# A server that hangs delays its callers: on SQLite all database work of a process, which has one thread.
_ANSWER_SECONDS = 2
# Answers of `post` that wait to be read, at most so many and so long.
_MOST_UNREAD, _UNREAD_SECONDS = 32, 1.0

_Command = tuple[Any, ...]

# For commands that may be skipped while the server hangs.
breaker = Breaker()


@cache
def sync_client() -> "redis.Redis":
    """Return the client of this process for short commands. Safe across threads."""
    pool = redis.BlockingConnectionPool.from_url(
        settings.KOMAND_REDIS_URL,
        max_connections=8,
        timeout=5,
        socket_timeout=_ANSWER_SECONDS,
        socket_connect_timeout=2,
    )
    return redis.Redis(connection_pool=pool)


def async_client(*, max_connections: int = 16) -> "redis.asyncio.Redis":
    """Return a new client for one event loop. It has no socket time-out, so that blocking reads keep their own."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.KOMAND_REDIS_URL,
        max_connections=max_connections,
        timeout=10,
        socket_timeout=None,
        socket_connect_timeout=2,
    )
    return redis.asyncio.Redis.from_pool(pool)


def post(*command: Any) -> None:
    """Send a command, such as `post("PUBLISH", channel, text)`, without waiting for its answer. Never raises for the
    server.

    For commands that may be lost. One that the server refuses is logged when a later call reads the answer.
    """
    if (held := getattr(_held, "commands", None)) is not None:
        held.append(command)
    else:
        _write([command])


@contextmanager
def in_one_write() -> Iterator[None]:
    """Send what this thread posts within at its end, in one write. After an exception nothing is sent."""
    outer, _held.commands = getattr(_held, "commands", None), []
    try:
        yield
        commands = _held.commands
    finally:
        _held.commands = outer
    if commands:
        _write(commands)


_held = threading.local()


def _write(commands: Sequence[_Command]) -> None:
    if breaker.is_open:
        return
    try:
        with breaker.watch():
            _sender().write(commands)
    except RedisError as error:
        logger.warning("%s to Valkey not sent: %s", ", ".join(command[0] for command in commands), error)


class _Sender:
    """One connection on which answers are read later: a caller pays for a write, not for the server's time.

    Safe across threads. It connects again after an error.
    """

    def __init__(self) -> None:
        pool = sync_client().connection_pool
        self._connection = pool.connection_class(**pool.connection_kwargs)
        self._lock = threading.Lock()
        self._unread, self._oldest_at = 0, 0.0

    def write(self, commands: Sequence[_Command]) -> None:
        """Raises RedisError if the commands were not sent. Sent ones may still be lost with the connection."""
        with self._lock:
            if breaker.is_open:  # the server hung for the thread that had the lock
                return
            was_connected = self._connection.is_connected
            try:
                self._read_due_answers()
                self._send(commands)
            except redis.ConnectionError:
                self._close()
                if not was_connected:
                    raise
                self._send(commands)  # it was closed since: the server was restarted
            except RedisError:
                self._close()
                raise

    def _send(self, commands: Sequence[_Command]) -> None:
        self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)
        if not self._unread:
            self._oldest_at = time.monotonic()
        self._unread += len(commands)

    def _read_due_answers(self) -> None:
        """Read the answers that have arrived if there are many or old ones. Waits for the oldest one only."""
        is_due = self._unread >= _MOST_UNREAD or time.monotonic() - self._oldest_at >= _UNREAD_SECONDS
        while is_due and self._unread:
            try:
                self._connection.read_response()
            except ResponseError as error:
                logger.warning("a command was refused by Valkey: %s", error)
            self._unread, self._oldest_at = self._unread - 1, time.monotonic()
            is_due = self._connection.can_read()

    def _close(self) -> None:
        self._connection.disconnect()
        self._unread = 0


_senders: dict[str, _Sender] = {}


def _sender() -> _Sender:
    """Return the sender of this process: one for all threads, also of those that come first together."""
    return _senders.get("") or _senders.setdefault("", _Sender())


# A forked child must neither write to the parent's connection nor wait for a lock that one of its threads held.
os.register_at_fork(after_in_child=_senders.clear)
