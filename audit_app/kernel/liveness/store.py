"""The choice of the store of marks: files beside SQLite, rows and advisory locks on PostgreSQL."""

from pathlib import Path

from django.conf import settings
from django.db import connections
from django.utils.module_loading import import_string

from audit_app.kernel.liveness.file_locks import FileMarks
from audit_app.kernel.liveness.process_marks import Marks

# By path: its driver takes ten megabytes of each process, and an installation on SQLite does not need it.
_POSTGRES_MARKS = "audit_app.kernel.liveness.pg_locks.PostgresMarks"


def installed_marks() -> Marks:
    if connections["default"].vendor == "postgresql":
        marks: Marks = import_string(_POSTGRES_MARKS)()
        return marks
    return FileMarks(Path(settings.DATA_DIR) / "alive")
