"""Request ids, which logs, the audit log and events contain. Pure."""

import re

from audit_app.kernel.ids import new_id

HEADER = "X-Request-Id"
_ACCEPTED = re.compile(r"[A-Za-z0-9._:\-]{1,128}")


def request_id_from(raw: str | None) -> str:
    """Return the caller's id if it matches the accepted form, else a new one."""
    return raw if raw and _ACCEPTED.fullmatch(raw) else new_id().hex
