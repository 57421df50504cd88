"""Django's PostgreSQL backend. The connections of its pool are not waited for while the server does not answer, and
migrations add foreign keys without reading the table.

Use: ENGINE = "audit_app.kernel.postgresql", `connection_class` of the pool WatchedConnection, and its `timeout` short:
a request waits several times, so that it notices an outage.
"""

import time
from typing import Any

from django.db.backends.postgresql import base
from psycopg_pool import PoolTimeout

from audit_app.kernel.postgresql.schema import SchemaEditor
from audit_app.kernel.postgresql.watched_connection import ServerIsSilent, circuit

_LONGEST_WAIT_SECONDS = 10.0  # for a connection, while all are in use


class DatabaseWrapper(base.DatabaseWrapper):
    SchemaEditorClass = SchemaEditor

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
        while True:
            if self.pool and circuit.is_open:
                raise ServerIsSilent
            try:
                return super().get_new_connection(conn_params)
            except PoolTimeout:
                if time.monotonic() >= deadline:
                    raise
