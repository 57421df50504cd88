"""Chooses where this installation's marks are: files beside SQLite, rows and advisory locks on PostgreSQL."""

from pathlib import Path

from django.conf import settings
from django.db import connections

from audit_app.kernel.liveness.files import FileMarks
from audit_app.kernel.liveness.marks import Marks
from audit_app.kernel.liveness.postgres import PostgresMarks


def installed_marks() -> Marks:
    """The marks of this installation."""
    if connections["default"].vendor == "postgresql":
        return PostgresMarks()
    return FileMarks(Path(settings.DATA_DIR) / "alive")
