"""Chooses where this installation's marks are: files beside SQLite, rows and advisory locks on PostgreSQL."""

from pathlib import Path

from django.conf import settings
from django.db import connections
from django.utils.module_loading import import_string

from audit_app.liveness.file_locks import FileMarks
from audit_app.liveness.process_marks import Marks

# By path: its driver is ten megabytes of each process, which an installation on SQLite has no use for.
_POSTGRES_MARKS = "audit_app.liveness.pg_locks.PostgresMarks"


def installed_marks() -> Marks:
    """The marks of this installation."""
    if connections["default"].vendor == "postgresql":
        marks: Marks = import_string(_POSTGRES_MARKS)()
        return marks
    return FileMarks(Path(settings.DATA_DIR) / "alive")
