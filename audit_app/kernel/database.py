"""The bridge from async code to the ORM, a small pool of threads; and the check for an unavailable database.

SQLite gets a single thread, since its writers queue anyway; PostgreSQL gets four. Nothing here opens a transaction.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import InterfaceError, InternalError, OperationalError, close_old_connections, connections
from django.db.backends.base.base import BaseDatabaseWrapper

P = ParamSpec("P")
T = TypeVar("T")

_POSTGRES_THREADS = 4
_READ_ONLY = "25006"  # PostgreSQL, appendix A: read_only_sql_transaction, as while another server takes over


async def in_db(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run synchronous ORM code on a pool thread and return its result, or raise what it raises.

    Context variables are copied. Safe from several event loops. A caller that is cancelled returns at once; the
    function runs to its end, so its transaction is either committed or rolled back.
    """
    context = contextvars.copy_context()
    call = partial(context.run, _on_fresh_connections, partial(function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_current_pool().threads, call)


def is_away(error: BaseException) -> bool:
    """Return whether the database caused the error: unreachable, full, locked or read-only. A retry may succeed."""
    if isinstance(error, InternalError):
        return getattr(error.__cause__, "sqlstate", "") == _READ_ONLY
    return isinstance(error, OperationalError | InterfaceError)


def close_pool() -> None:
    """Let running functions end, then close the threads and their connections. The next `in_db` opens new ones."""
    global _pool
    with _pool_lock:
        pool, _pool = _pool, None
    if pool is not None:
        pool.close()


class _Pool:
    def __init__(self) -> None:
        count = _POSTGRES_THREADS if connections["default"].vendor == "postgresql" else 1
        self._wrappers: list[BaseDatabaseWrapper] = []
        self.threads = ThreadPoolExecutor(count, thread_name_prefix="in_db", initializer=self._remember_connection)

    def close(self) -> None:
        self.threads.shutdown(wait=True)
        for wrapper in self._wrappers:
            wrapper.close()

    def _remember_connection(self) -> None:
        wrapper = connections["default"]
        if wrapper.vendor == "sqlite":
            # Whatever the setting says for threads that serve one request: these threads last, and opening a
            # connection costs more than the usual query. (PostgreSQL has a pool of its own.)
            wrapper.settings_dict = {**wrapper.settings_dict, "CONN_MAX_AGE": None}
        wrapper.inc_thread_sharing()  # so that `close` may close the connections of threads that have ended
        self._wrappers.append(wrapper)


_pool: _Pool | None = None
_pool_lock = threading.Lock()


def _current_pool() -> _Pool:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = _Pool()
        return _pool


def _on_fresh_connections(function: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return function()
    finally:
        close_old_connections()


def _forget_pool() -> None:
    """Drop the pool in a forked child, which has the pool but none of its threads."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)
