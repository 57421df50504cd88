"""The operators' pages of the audit log and the timeline, and what the admin pages of every layer are built from."""

from audit_app.admin import entries, events

__all__ = ["entries", "events"]
