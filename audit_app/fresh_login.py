"""Fresh logins: some actions take a login of the last minutes, so that an open browser or a stolen token is not enough.

The time of a login is kept in the browser session or in the token. API keys have none: they are made for programs, and
their scopes limit them instead.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest

from audit_app.kernel.errors import Forbidden
from audit_app.services import record

# Actions that several apps ask for: what completes "To …, log in again".
ALLOW_HIGH_RISK = "allow a call of high risk"
GRANT_AUTONOMY = "let an agent act without approval"
SEE_CREDENTIALS = "see credentials"
CREATE_API_KEY = "create an API key"
LINK_CHANNEL = "link a channel"

_SESSION_KEY = "authenticated_at"


class FreshLoginRequired(Forbidden):
    """A login of the last minutes is missing. The message names the action and the way to go on."""

    code = "fresh_login_required"

    def __init__(self, action: str) -> None:
        minutes = settings.KOMAND_FRESH_LOGIN_MINUTES
        super().__init__(
            f"To {action}, log in again: that takes a login of the last {minutes} minutes. Then repeat the request.",
            minutes=minutes,
        )


def is_fresh(authenticated_at: datetime | None) -> bool:
    """Return whether a login of that time still counts as fresh. KOMAND_FRESH_LOGIN_MINUTES=0: every login does."""
    minutes = settings.KOMAND_FRESH_LOGIN_MINUTES
    if minutes == 0:
        return True
    return authenticated_at is not None and datetime.now(UTC) - authenticated_at < timedelta(minutes=minutes)


def time_of_session(session: Any) -> datetime | None:
    """Return when the user of a browser session last proved who they are; None if that is unknown."""
    seconds = session.get(_SESSION_KEY)
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int) else None


def renew(session: Any) -> None:
    """Note in a browser session that its user has just proved who they are."""
    session[_SESSION_KEY] = int(datetime.now(UTC).timestamp())


def require(request: HttpRequest, action: str) -> None:
    """Raise FreshLoginRequired unless the browser session of the request has a fresh login. The refusal is audited.

    action: completes "To …, log in again". Call it outside of a transaction, which would roll the audit entry back.
    """
    if not is_fresh(time_of_session(request.session)):
        refuse(action, f"user:{request.user.pk}")


def refuse(action: str, actor: str) -> None:
    """Audit the refusal as `FreshLoginRequired`, and raise FreshLoginRequired."""
    record("FreshLoginRequired", actor=actor, details={"action": action})
    raise FreshLoginRequired(action)


@receiver(user_logged_in)
def _note_login(request: HttpRequest | None, **_: Any) -> None:
    # Logins over an API have no browser session: their tokens carry the time.
    if request is not None and hasattr(request, "session"):
        renew(request.session)
