"""Django's SQLite backend with a fair queue of writers, and with placeholders that are converted once.

Writers that wait for SQLite poll, so one of them may starve for seconds. Every transaction here first takes an `flock`
on a file beside the database, which the kernel grants in order, and only then begins. Use: ENGINE =
"audit_app.kernel.sqlite", `transaction_mode` IMMEDIATE, every write inside `atomic`. (The overridden methods are
private to Django and missing from its type stubs.)
"""

import fcntl
import os
import re
import weakref
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db.backends.sqlite3 import base


@lru_cache(maxsize=512)
def _with_question_marks(query: str) -> str:
    return str(base.FORMAT_QMARK_REGEX.sub("?", query).replace("%%", "%"))


class _Cursor(base.SQLiteCursorWrapper):
    """A cursor that keeps converted statements: the conversion of a long one takes longer than its execution."""

    def convert_query(self, query: str, *, param_names: list[str] | None = None) -> str:
        if param_names is None:
            return _with_question_marks(query)
        return str(super().convert_query(query, param_names=param_names))


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection with its own descriptor of the lock file, so that threads queue like processes do."""

    _turnstile: int | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if self._turnstile is None and not self.is_in_memory_db():
            path = f"{conn_params['database']}.turn"
            self._turnstile = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _open_wrappers.add(self)
        return super().get_new_connection(conn_params)

    @staticmethod
    def with_literals(sql: str, parameters: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
        """Return a statement with its constant texts and integers in it, and the parameters that are left.

        SQLite prepares a statement anew at each execution if a value bound to it may decide whether a partial index
        fits, which takes ten times as long as a look-up.
        """
        remaining, kept = iter(parameters), []

        def place(found: re.Match[str]) -> str:
            if found[0] == "%%":
                return "%%"
            value = next(remaining)
            if isinstance(value, str) and "\0" not in value:
                return "'" + value.replace("'", "''").replace("%", "%%") + "'"
            if isinstance(value, int):
                return str(int(value))
            kept.append(value)
            return "%s"

        return re.sub("%[s%]", place, sql), tuple(kept)

    def create_cursor(self, name: str | None = None) -> Any:
        return self.connection.cursor(factory=_Cursor)

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
