"""A login whose password is right and whose second factor is still missing, kept in the browser session."""

import time
from typing import Any

from django.contrib.auth.models import User
from django.utils.crypto import constant_time_compare

_KEY = "pending_login"
_SECONDS = 300


def store(session: Any, user: User) -> None:
    """Keep the user for some minutes. The session stays anonymous."""
    until = int(time.time()) + _SECONDS
    session[_KEY] = {"user": user.pk, "stamp": user.get_session_auth_hash(), "until": until}


def find_user(session: Any) -> User | None:
    """Return the user of the pending login; None if there is none, it expired, or the password was changed."""
    pending = session.get(_KEY) or {}
    if pending.get("until", 0) < time.time():
        return None
    user = User.objects.filter(pk=pending["user"], is_active=True).first()
    if user is None or not constant_time_compare(user.get_session_auth_hash(), pending["stamp"]):
        return None
    return user
