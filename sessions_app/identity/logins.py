"""The logins of a user: sessions of browsers, and of programs with refresh tokens. Shown as devices, and ended.

API keys are no logins: they are revoked one by one.
"""

import logging
import time
from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.db import DatabaseError, transaction
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone

from audit_app import services as audit
from audit_app.kernel.errors import NotFound
from sessions_app.identity import client_ip
from sessions_app.models import Login, RefreshToken

logger = logging.getLogger(__name__)

SEEN_SECONDS = 300  # at most one write in this time for a browser session
_MOST_KNOWN = 10_000
_LONGEST_AGENT = 200

_seen: dict[str, float] = {}  # browser sessions of this process, and when they were written


def touch(request: HttpRequest, user: User) -> None:
    """Record a request of a logged-in page, at most once in SEEN_SECONDS for each session and process. Never raises."""
    key, now = request.session.session_key or "", time.monotonic()
    if not key or now - _seen.get(key, -SEEN_SECONDS) < SEEN_SECONDS:
        return
    if len(_seen) >= _MOST_KNOWN:
        _seen.clear()
    _seen[key] = now
    try:
        with transaction.atomic():
            fields = {"user_id": user.pk, "last_seen_at": timezone.now(), **_client(request)}
            if not Login.objects.filter(session_key=key).update(**fields):
                Login.objects.bulk_create([Login(session_key=key, **fields)], ignore_conflicts=True)
    except DatabaseError as error:
        logger.warning("cannot record the use of a login: %s", error)


@receiver(user_logged_in)
def _remember(request: HttpRequest, user: User, **_: Any) -> None:
    if hasattr(request, "session"):  # of a page; `record` is for programs
        touch(request, user)


@receiver(user_logged_out)
def _end(request: HttpRequest, **_: Any) -> None:
    if hasattr(request, "session") and request.session.session_key:
        Login.objects.filter(session_key=request.session.session_key).delete()


def renew_session(request: HttpRequest) -> None:
    """Give the browser session a new key. It stays the same login."""
    before = request.session.session_key
    request.session.cycle_key()
    Login.objects.filter(session_key=before).update(session_key=request.session.session_key)


def record(login_id: UUID, user: User, request: HttpRequest) -> None:
    """Record a login of a program. login_id: the family of its refresh tokens."""
    Login.objects.create(pk=login_id, user=user, last_seen_at=timezone.now(), **_client(request))


def list_logins(user: User) -> list[Login]:
    """Return the logins of a user that are valid now, the last used first."""
    rows, now = Login.objects.filter(user=user).order_by("-last_seen_at"), timezone.now()
    open_tokens = RefreshToken.objects.filter(user=user, used_at=None, revoked_at=None, expires_at__gt=now)
    families = set(open_tokens.values_list("family", flat=True))
    open_keys = find_open_sessions([row.session_key for row in rows if row.session_key])
    return [row for row in rows if (row.session_key in open_keys if row.session_key else row.pk in families)]


def find_open_sessions(keys: Collection[str]) -> set[str]:
    """Return those of the keys of browser sessions that exist and have not expired. One statement."""
    rows = _session_rows().filter(pk__in=keys, expire_date__gt=timezone.now())
    return set(rows.values_list("session_key", flat=True))


def end_login(user: User, login_id: UUID) -> None:
    """End and audit one login of the user. Raises NotFound."""
    row = Login.objects.filter(user=user, pk=login_id).first()
    if row is None:
        raise NotFound("There is no such login.")
    with transaction.atomic():
        _session_rows().filter(session_key=row.session_key).delete()
        _revoke(user, family=row.pk)
        row.delete()
        audit.record("LoginEnded", details={"user": user.username, "login": str(login_id)})


def sign_out_everywhere(user: User, *, keep_session: str = "") -> int:
    """End all browser sessions of the user and revoke all refresh tokens, with their access tokens. Audited.

    Open connections are closed when their credential is checked next. API keys stay valid.
    keep_session: the key of a browser session that stays. Return the number of ended sessions and tokens.
    """
    keys = [key for key in _browser_sessions(user) if key != keep_session]
    with transaction.atomic():
        ended = int(_session_rows().filter(session_key__in=keys).delete()[0])
        ended += _revoke(user)
        Login.objects.filter(user=user).exclude(session_key=keep_session or None).delete()
        audit.record("SignedOutEverywhere", details={"user": user.username, "ended": ended})
    return ended


def _session_rows() -> Any:
    """Return the manager of browser sessions. Only web processes have their model."""
    return apps.get_model("sessions", "Session").objects


def _browser_sessions(user: User) -> Iterator[str]:
    """Yield the keys of the user's sessions. Reads all sessions, as a session names its user only in its data."""
    for row in _session_rows().filter(expire_date__gt=timezone.now()).iterator():
        if row.get_decoded().get(SESSION_KEY) == str(user.pk):
            yield row.session_key


def _revoke(user: User, **tokens: UUID) -> int:
    return RefreshToken.objects.filter(user=user, revoked_at=None, **tokens).update(revoked_at=timezone.now())


def _client(request: HttpRequest) -> dict[str, str]:
    agent = request.headers.get("User-Agent", "").replace("\0", "")[:_LONGEST_AGENT]
    return {"user_agent": agent, "address": client_ip.of_request(request)}
