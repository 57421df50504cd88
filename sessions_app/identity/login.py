"""Login with a name, a password and perhaps a second factor, throttled by address, name and network."""

from copy import copy

from axes.helpers import get_cool_off
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest

from audit_app import services as audit
from audit_app.kernel.errors import RateLimited
from sessions_app.identity import client_ip, login_throttle, rate_limits, second_factor
from sessions_app.identity.principal import Unauthenticated

_PERMANENT_LOCKOUT_SECONDS = 3600  # sent to the client if only an operator can unlock


class LoginRefused(Unauthenticated):
    """Wrong user name or password."""

    code = "login_refused"


class LockedOut(RateLimited):
    """Too many failed logins. Wait and try again."""

    code = "locked_out"


def log_in(request: HttpRequest, identifier: str, password: str, code: str = "") -> User:
    """Return the active user with that e-mail address or user name. Audited; the caller sends `user_logged_in`.

    code: code of the second factor, if the user has one. Raises what `check_password` and `second_factor.check` raise.
    """
    user = check_password(request, identifier, password)
    second_factor.check(user, code)
    record_login(request, user)
    return user


def record_login(request: HttpRequest, user: User, **details: str) -> None:
    """Audit a login that is complete."""
    address = client_ip.network_of(client_ip.of_request(request))
    audit.record("LoggedIn", details={"user": user.username, "address": address, **details}, actor=f"user:{user.pk}")


def check_password(request: HttpRequest, identifier: str, password: str) -> User:
    """Return the active user with that e-mail address or user name and password, who may need a second factor, too.

    Raises LoginRefused, with the same text after the same work for an unknown name and a wrong password; LockedOut,
    LoginDelayed or RateLimited after too many attempts.
    """
    client = client_ip.of_request(request)
    address = client_ip.network_of(client)
    rate_limits.take(rate_limits.login_limit(), f"address:{address}")
    username = _username_of(identifier)
    is_counted = login_throttle.admit(username, client)
    user = authenticate(request, username=username, password=password)
    if isinstance(user, User):
        if is_counted:
            login_throttle.forgive(username, client)
        return user
    raise _refusal(request)


def _username_of(identifier: str) -> str:
    """Return the name of the only user with that e-mail address, else what was entered."""
    names = list(User.objects.filter(email__iexact=identifier).values_list("username", flat=True)[:2])
    return names[0] if len(names) == 1 else identifier


def _refusal(request: HttpRequest) -> LoginRefused | LockedOut:
    if not getattr(request, "axes_locked_out", False):
        return LoginRefused()
    request.axes_locked_out = False  # type: ignore[attr-defined]  # this code responds, not the middleware of axes
    cool_off = get_cool_off(request)
    return LockedOut(retry_after_seconds=int(cool_off.total_seconds()) if cool_off else _PERMANENT_LOCKOUT_SECONDS)


def announce(request: HttpRequest, user: User) -> None:
    """Send Django's `user_logged_in` for a login that opens no browser session.

    The lockout's log reads the session of the request and would create one, with a cookie: it gets a copy without.
    """
    bare = copy(request)
    bare.__dict__.pop("session", None)
    user_logged_in.send(sender=User, request=bare, user=user)
