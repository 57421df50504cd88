"""Ids of the buttons that answer a question: each names the question and one of its options. Pure."""

import base64
import binascii
import re
from uuid import UUID

_ACTION = re.compile(r"ask:(?P<id>[A-Za-z0-9_-]{22}):(?P<number>[0-9])", re.ASCII)


def action_id(request_id: UUID, number: int) -> str:
    """Return the id of the button for an option. number: from 0 to 9."""
    return f"ask:{base64.urlsafe_b64encode(request_id.bytes).rstrip(b'=').decode()}:{number}"


def read_action(action: str) -> tuple[UUID, int] | None:
    """Return the question and the number of the option of a button, None if it is no button of a question."""
    found = _ACTION.fullmatch(action)
    if found is None:
        return None
    try:
        return UUID(bytes=base64.urlsafe_b64decode(found["id"] + "==")), int(found["number"])
    except binascii.Error:
        return None
