"""Login links: `manage.py up` prints one in a terminal, so that the first login needs no password to be typed.

A link is bound to the password and to the last login of its user, so any login voids it. It expires, and a second
factor is asked for as after a password.
"""

from django.conf import settings
from django.contrib.auth.models import User
from django.core.signing import BadSignature, TimestampSigner
from django.utils import timezone

from audit_app.kernel.errors import Forbidden
from sessions_app.identity import signed_claims

MINUTES = 30


class LoginLinkRefused(Forbidden):
    """This link was used already, or has expired. Log in with your password."""

    code = "login_link_refused"


def make(user: User) -> str:
    """Return the token of a new link."""
    return _signer(user).sign(str(user.pk))


def find_user(token: str) -> User:
    """Return the active user of a valid link. Raises LoginLinkRefused."""
    number = token.partition(":")[0]
    user = User.objects.filter(pk=int(number), is_active=True).first() if number.isdecimal() else None
    try:
        if user is not None:
            _signer(user).unsign(token, max_age=MINUTES * 60)
            return user
    except BadSignature:
        pass
    raise LoginLinkRefused


def use(token: str) -> User:
    """Void a valid link, and return its user. Raises LoginLinkRefused, also for the second of two at once."""
    user = find_user(token)
    if not User.objects.filter(pk=user.pk, last_login=user.last_login).update(last_login=timezone.now()):
        raise LoginLinkRefused
    return user


def _signer(user: User) -> TimestampSigner:
    last = user.last_login.isoformat() if user.last_login else ""
    salt = f"komand:login-link:{signed_claims.password_stamp(user)}:{last}"
    return TimestampSigner(key=settings.KOMAND_JWT_KEY, salt=salt)
