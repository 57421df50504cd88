"""Tables of audit_app, one module per subject. Ids of higher layers are plain values here, never foreign keys."""

from audit_app.models.entries import AuditCut, AuditEntry, AuditSeal
from audit_app.models.live_copies import LiveCopy
from audit_app.models.processes import ProcessLife
from audit_app.models.search import SearchEntry, SearchProgress
from audit_app.models.timeline import Event, TimelineHead

__all__ = [
    "AuditCut",
    "AuditEntry",
    "AuditSeal",
    "Event",
    "LiveCopy",
    "ProcessLife",
    "SearchEntry",
    "SearchProgress",
    "TimelineHead",
]
