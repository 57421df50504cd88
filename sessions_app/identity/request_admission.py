"""Admission of requests: authentication, rate limit, CSRF check of browser sessions, scopes of keys.

Access to single objects is checked in `sessions_app.access`.
"""

from collections.abc import Sequence

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone

from audit_app import rights
from sessions_app.identity import client_ip, logins, rate_limits, scopes, session_tokens, signed_claims
from sessions_app.identity.authentication import QueryCredential, authenticate, check_csrf
from sessions_app.identity.principal import Principal, Unauthenticated

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def admit(request: HttpRequest, limit: rate_limits.Limit, *, from_query: QueryCredential = "none") -> Principal:
    """Return the principal of a request that may proceed. Synchronous.

    limit: counted by user.
    from_query: as for `authenticate`. Raises Unauthenticated, RateLimited, Forbidden (a browser session without its
        CSRF token), MissingScope, and SuspiciousOperation for a foreign Host.
    """
    request.get_host()
    principal = authenticate(request, from_query=from_query)
    if principal is None:
        raise Unauthenticated
    rate_limits.take(limit, principal.actor)
    if request.method not in _SAFE_METHODS:
        if principal.kind == "session":
            check_csrf(request)
        if request.path not in scopes.EXEMPT_PATHS:
            principal.require_write()
    return principal


def admit_bearer(request: HttpRequest, limit: rate_limits.Limit, *, from_query: QueryCredential = "none") -> Principal:
    """Return the principal of a request of a program, as `admit`, but without browser sessions.

    Admits read-only keys whatever the method: code that changes something must call `require_write` itself.
    """
    request.get_host()
    principal = authenticate(request, from_query=from_query)
    if principal is None or principal.kind == "session":
        raise Unauthenticated
    rate_limits.take(limit, principal.actor)
    return principal


def admit_again(request: HttpRequest, principal: Principal, limit: rate_limits.Limit) -> Principal:
    """Return the principal of a further request of an open connection, if its credential is still valid. Synchronous.

    Raises Unauthenticated, RateLimited, and SuspiciousOperation for a foreign Host.
    """
    request.get_host()
    [refusal] = find_refusals([principal])
    if refusal is not None:
        raise refusal
    rate_limits.take(limit, principal.actor)
    return principal


def find_refusals(principals: Sequence[Principal]) -> list[Unauthenticated | None]:
    """Check the credentials of open connections again, and return an error for each that is not valid any more.

    That is so after a logout, a revoked or narrowed key, a deactivated user, a new password, or the expiry of a key, a
    token or a session. From then on the principals' users hold the rights of now. Counted against no limit.
    Synchronous. One statement each for all users, keys, logins and browser sessions.
    """
    users = {user.pk: user for user in User.objects.filter(pk__in={principal.user.pk for principal in principals})}
    credentials = session_tokens.find_scopes({principal.credential for principal in principals})
    sessions = logins.find_open_sessions({principal.session_key for principal in principals} - {""})

    def is_valid(principal: Principal) -> bool:
        return (
            principal.credential in credentials
            and _extends_to(credentials[principal.credential], principal)
            and (not principal.session_key or principal.session_key in sessions)
            and (principal.valid_until is None or timezone.now() < principal.valid_until)
            and _is_same(users.get(principal.user.pk), principal)
        )

    for principal in principals:
        if principal.user.pk in users:
            rights.renew(principal.user, users[principal.user.pk])
    return [None if is_valid(principal) else Unauthenticated() for principal in principals]


def _extends_to(scopes_now: frozenset[str], principal: Principal) -> bool:
    """Return whether the scopes of the credential still extend to the surface. Only those of keys limit it."""
    return principal.kind != "api_key" or not principal.surface or scopes.may_use(scopes_now, principal.surface)


def _is_same(user: User | None, principal: Principal) -> bool:
    """Return whether the user of now may still act as the principal."""
    if user is None or not principal.password_stamp:
        return user is not None and user.is_active
    return signed_claims.is_unchanged(user, principal.password_stamp)


def admit_anyone(request: HttpRequest, limit: rate_limits.Limit) -> None:
    """Count a request to a public endpoint, such as the login, by address. Raises RateLimited."""
    request.get_host()
    rate_limits.take(limit, f"address:{client_ip.network_of(client_ip.of_request(request))}")
