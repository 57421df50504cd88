"""Django's SQLite backend with a fair queue of writers.

SQLite lets waiting writers poll, so one of them may starve for seconds. Every transaction here first takes an
`flock` beside the database file, which the kernel hands on in order, and only then begins. Use: ENGINE =
"audit_app.sqlite", `transaction_mode` IMMEDIATE, every write inside `atomic`.
"""

import fcntl
import os
from typing import Any

from django.db.backends.sqlite3 import base


class DatabaseWrapper(base.DatabaseWrapper):
    _turnstile: int | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        if not self.is_in_memory_db():
            self._turnstile = os.open(f"{conn_params['database']}.turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return connection

    def _start_transaction_under_autocommit(self) -> None:
        if self._turnstile is not None:
            fcntl.flock(self._turnstile, fcntl.LOCK_EX)
        try:
            super()._start_transaction_under_autocommit()
        except BaseException:
            self._leave()
            raise

    def _commit(self) -> Any:
        try:
            return super()._commit()
        finally:
            self._leave()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()
        finally:
            self._leave()

    def _close(self) -> Any:
        if self._turnstile is not None:
            os.close(self._turnstile)
            self._turnstile = None
        return super()._close()

    def _leave(self) -> None:
        if self._turnstile is not None:
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)
