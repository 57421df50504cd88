"""The upgrades of this installation, as the audit log names them."""

from audit_app import services as audit
from audit_app.models import AuditEntry
from komand import __version__

_ACTION = "Upgraded"


def record(migrations: int) -> None:
    """Audit that a newer release has migrated the database of an installation that existed."""
    audit.record(_ACTION, actor="system", details={"version": __version__, "migrations": migrations})


def last_version() -> str:
    """Return the release of the last upgrade; empty if there was none."""
    entry = AuditEntry.objects.filter(action=_ACTION).order_by("-id").first()
    return str(entry.details["version"]) if entry else ""
