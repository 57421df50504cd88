"""The bridge from async code to the ORM, a small pool of threads, with calls that are made together.

Also the check for an unavailable database, and writes that must not be lost: retried, with back-off, while it is away.

SQLite gets a single thread, since its writers queue anyway; PostgreSQL gets four. Nothing here opens a transaction.
"""

import asyncio
import contextvars
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from django.db import InterfaceError, InternalError, OperationalError, close_old_connections, connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_MOST_OF_A_GROUP = 50  # calls in one transaction, which blocks all other writers of SQLite
_POSTGRES_THREADS = 4
_READ_ONLY = "25006"  # PostgreSQL, appendix A: read_only_sql_transaction, as while another server takes over
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0

_slow_threads = ThreadPoolExecutor(4, thread_name_prefix="in_slow_thread")


async def in_db(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run synchronous ORM code on a pool thread and return its result, or raise what it raises.

    Context variables are copied. Safe from several event loops. A caller that is cancelled returns at once; the
    function runs to its end, so its transaction is either committed or rolled back.
    """
    context = contextvars.copy_context()
    call = partial(context.run, _on_fresh_connections, partial(function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_current_pool().threads, call)


async def in_slow_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run synchronous ORM code that may take seconds besides its statements, as `in_db`, on one of a few other threads.

    Its connection is its own, and is closed afterwards.
    """
    context = contextvars.copy_context()
    call = partial(context.run, _on_own_connections, partial(function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_slow_threads, call)


def is_away(error: BaseException) -> bool:
    """Return whether the database caused the error: unreachable, full, locked or read-only. A retry may succeed."""
    if isinstance(error, InternalError):
        return getattr(error.__cause__, "sqlstate", "") == _READ_ONLY
    return isinstance(error, OperationalError | InterfaceError)


async def retry_until_stored(write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `write` until the database stores it, and return its result.

    `write` must be idempotent: the answer to a commit may be lost. Raises all errors but those of a database that is
    away.
    """
    return await run_until_stored(partial(write, *args, **kwargs))


async def run_until_stored(write: Callable[[], T], *, gives_up: Callable[[], bool] = lambda: False) -> T:
    """Call `write` like `retry_until_stored`. gives_up: called before each retry; if True, the last error is raised."""
    return await repeat_until_stored(lambda: in_db(write), gives_up=gives_up)


async def repeat_until_stored(attempt: Callable[[], Awaitable[T]], *, gives_up: Callable[[], bool]) -> T:
    """Repeat a write as `run_until_stored` does. attempt: returns what it waits for."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not is_away(error) or gives_up():
                raise
            logger.error("the database rejects a write, retrying in %.1f s: %s", pause, error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


class CallGroups(Generic[T, R]):
    """Groups the calls of a function: those that come while a call is under way are made together by the next one.

    function: called with the items of a group in the order in which they came; returns a result for each. It owns one
        transaction: if it raises, nothing is stored.
    key: items with different keys are in different groups, which do not wait for each other.
    """

    def __init__(
        self, function: Callable[[Sequence[T]], Sequence[R]], key: Callable[[T], Hashable] = lambda item: None
    ) -> None:
        self._function = function
        self._key = key
        self._waiting: dict[Hashable, list[tuple[T, asyncio.Future[R]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, item: T) -> R:
        """Return the result for an item. Raises what the function raises. Only on one event loop."""
        key = self._key(item)
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if key in self._waiting:
            self._waiting[key].append((item, result))
        else:
            self._waiting[key] = [(item, result)]
            task = asyncio.create_task(self._call_all(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await result

    async def _call_all(self, key: Hashable) -> None:
        while group := self._waiting[key]:
            self._waiting[key] = group[_MOST_OF_A_GROUP:]
            await self._call(group[:_MOST_OF_A_GROUP])
        del self._waiting[key]

    async def _call(self, group: Sequence[tuple[T, "asyncio.Future[R]"]]) -> None:
        try:
            results = await in_db(self._function, [item for item, _ in group])
        except BaseException as error:  # also of a loop that ends: nobody may wait for ever
            if len(group) > 1 and isinstance(error, Exception) and not is_away(error):
                for each in group:  # one of them must not be the fault of the others
                    await self._call([each])
                return
            for _, result in group:
                if not result.done():
                    result.set_exception(error)
            return
        for (_, result), found in zip(group, results, strict=True):
            if not result.done():
                result.set_result(found)


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


def _on_own_connections(function: Callable[[], T]) -> T:
    try:
        return function()
    finally:
        connections.close_all()


def _forget_pool() -> None:
    """Drop the pool in a forked child, which has the pool but none of its threads."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)
