"""Admin pages of the audit log and the timeline."""

from audit_app.admin import entries, events

__all__ = ["entries", "events"]
