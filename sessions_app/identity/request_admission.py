"""Admission of requests: authentication, rate limit, CSRF check of browser sessions, scopes of keys.

Access to single objects is checked in `sessions_app.access`.
"""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest

from audit_app import rights
from sessions_app.identity import client_ip, rate_limits, scopes, session_tokens, stream_tickets
from sessions_app.identity.authentication import QueryCredential, authenticate, check_csrf, request_from_scope
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


def check_again(
    scope: Mapping[str, Any], principal: Principal, *, authorization: str = "", outlives_token: bool = False
) -> None:
    """Check the credential of an open connection again. Counted against no limit. Synchronous.

    authorization: the header, if the scope does not contain it.
    outlives_token: the connection ends with the credential that its token was issued for, not with the token. So does
        one with a ticket, which it has used up. From then on the principal's user holds the rights of now.
        Raises Unauthenticated after a logout, a revoked key, a deactivated user or the expiry of a token.
    """
    request = request_from_scope(scope)
    if authorization:
        request.META["HTTP_AUTHORIZATION"] = authorization
    user = _user_of_now(request, principal, outlives_token=outlives_token)
    if user is None:
        raise Unauthenticated
    rights.renew(principal.user, user)


def _user_of_now(request: HttpRequest, principal: Principal, *, outlives_token: bool) -> User | None:
    credential = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")[2].strip()
    credential = credential or request.GET.get("ticket", "") or request.GET.get("access_token", "")
    if outlives_token or credential.startswith(stream_tickets.MARK):
        is_valid = session_tokens.is_valid_credential(principal.credential)
        return User.objects.filter(pk=principal.user.pk, is_active=True).first() if is_valid else None
    found = authenticate(request, from_query="token")
    return found.user if found is not None and found.user.pk == principal.user.pk else None


def admit_anyone(request: HttpRequest, limit: rate_limits.Limit) -> None:
    """Count a request to a public endpoint, such as the login, by address. Raises RateLimited."""
    request.get_host()
    rate_limits.take(limit, f"address:{client_ip.network_of(client_ip.of_request(request))}")
