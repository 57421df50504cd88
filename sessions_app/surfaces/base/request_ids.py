"""The id by which one request is found in logs, audit and events: the caller's own, or a new one. Pure."""

import re

from audit_app.kernel.ids import new_id

HEADER = "X-Request-Id"
_ACCEPTED = re.compile(r"[A-Za-z0-9._:\-]{1,128}")


def request_id_from(raw: str | None) -> str:
    """The caller's id if it is short and plain enough to be logged as it is, else a new one."""
    return raw if raw and _ACCEPTED.fullmatch(raw) else new_id().hex
