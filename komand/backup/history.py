"""The backups that were made, as the audit log names them."""

from datetime import datetime

from audit_app import services as audit
from audit_app.models import AuditEntry

_ACTION = "BackedUp"


def record(rows: int, files: int) -> None:
    """Audit that a backup was made and verified."""
    audit.record(_ACTION, actor="system", details={"rows": rows, "files": files})


def last_made() -> datetime | None:
    """Return when the last backup was made; None if the audit log names none."""
    return AuditEntry.objects.filter(action=_ACTION).order_by("-id").values_list("at", flat=True).first()
