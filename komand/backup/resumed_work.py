"""Moves deadlines and other times of pending work that goes on in a restored installation."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from agents_app import services as runs
from audit_app import services as audit
from audit_app.models import AuditEntry, TimelineHead
from sessions_app.attachments import records
from sessions_app.channels.outbound import transitions
from tools_app import services as tools

_ACTION = "Resumed"


def _path(data: Path) -> Path:
    return data / "restore.resumed"


def request(data: Path, backup: str) -> None:
    """Have the next start move the times. backup: time at which it was made."""
    _path(data).write_text(backup)


def move_if_requested(data: Path) -> None:
    """Move the times of pending work, once, by the time since the old installation did something.

    Only while no process runs. Owns its transaction.
    """
    if not _path(data).exists():
        return
    with transaction.atomic():
        _move(_path(data).read_text())
    _path(data).unlink()


def _move(backup: str) -> None:
    newest = TimelineHead.objects.order_by("-ts").values_list("ts", flat=True).first()
    if newest is None or AuditEntry.objects.filter(action=_ACTION, details__backup=backup).exists():
        return
    since = datetime.fromtimestamp(newest / 1000, UTC)
    by = max(timezone.now() - since, timedelta())
    moved = runs.move_times(since, by)
    tools.move_times(by)
    transitions.move_times(by)
    records.move_times(by)
    details = {"backup": backup, "runs": moved, "seconds": round(by.total_seconds())}
    audit.record(_ACTION, actor="system", details=details)
