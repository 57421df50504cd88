"""Django's SQLite backend with a fair queue of writers.

Writers that wait for SQLite poll, so one of them may starve for seconds. Every transaction here first takes an `flock`
on a file beside the database, which the kernel grants in order, and only then begins. Use: ENGINE =
"audit_app.kernel.sqlite", `transaction_mode` IMMEDIATE, every write inside `atomic`. (The overridden methods are
private to Django and missing from its type stubs.)
"""

import fcntl
import os
import weakref
from typing import Any

from django.db.backends.sqlite3 import base


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection with its own descriptor of the lock file, so that threads queue like processes do."""

    _turnstile: int | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if self._turnstile is None and not self.is_in_memory_db():
            path = f"{conn_params['database']}.turn"
            self._turnstile = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _open_wrappers.add(self)
        return super().get_new_connection(conn_params)

    def _start_transaction_under_autocommit(self) -> None:
        # The lock is taken inside the `try`: a soft time limit may raise between any two lines.
        try:
            if self._turnstile is not None:
                fcntl.flock(self._turnstile, fcntl.LOCK_EX)
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._leave()
            raise

    def _commit(self) -> Any:
        try:
            return super()._commit()  # type: ignore[misc]
        finally:
            self._leave()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]
        finally:
            self._leave()

    def _close(self) -> Any:
        # Closing rolls back an open transaction: release the lock after it.
        try:
            return super()._close()  # type: ignore[misc]
        finally:
            self._close_turnstile()

    def _leave(self) -> None:
        if self._turnstile is not None:
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)

    def _close_turnstile(self) -> None:
        if self._turnstile is not None:
            os.close(self._turnstile)
            self._turnstile = None


_open_wrappers: "weakref.WeakSet[DatabaseWrapper]" = weakref.WeakSet()


def _drop_inherited_turnstiles() -> None:
    """Close the descriptors in a forked child, which share the parent's lock.

    The parent keeps its lock, and a child that survives a dead parent does not hold it.
    """
    for wrapper in list(_open_wrappers):
        wrapper._close_turnstile()
    _open_wrappers.clear()


os.register_at_fork(after_in_child=_drop_inherited_turnstiles)
