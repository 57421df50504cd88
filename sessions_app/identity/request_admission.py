"""Whether a request may come in at all: proven identity, rate limit, CSRF of pages, read-only keys.

What it may then touch is decided object by object in `sessions_app.access`.
"""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest

from audit_app.kernel.errors import Forbidden
from sessions_app.identity import client_ip, rate_limits, stream_tickets
from sessions_app.identity.authentication import authenticate, check_csrf, request_from_scope
from sessions_app.identity.principal import Principal, Unauthenticated

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class ReadOnlyKey(Forbidden):
    """This API key may only read."""

    code = "read_only_key"


def admit(request: HttpRequest, limit: rate_limits.Limit, *, from_query: bool = False) -> Principal:
    """The principal of a request that may go on; counted against the limit by user. Synchronous.

    Raises Unauthenticated (nobody, or a bad credential), RateLimited, or Forbidden (a page's session without
    its CSRF token, a read-only key that wants to change something); SuspiciousOperation for a foreign Host.
    from_query: the protocol's clients may name their credential in the address.
    """
    request.get_host()
    principal = authenticate(request, from_query=from_query)
    if principal is None:
        raise Unauthenticated
    rate_limits.take(limit, principal.actor)
    if request.method not in _SAFE_METHODS:
        if principal.kind == "session":
            check_csrf(request)
        if not principal.can_write:
            raise ReadOnlyKey
    return principal


def admit_bearer(request: HttpRequest, limit: rate_limits.Limit, *, from_query: bool = False) -> Principal:
    """As `admit`, for protocols of programs: a page's session does not count, and a key that may only read comes in,
    whatever the method; what changes something has to look at `can_write` itself."""
    request.get_host()
    principal = authenticate(request, from_query=from_query)
    if principal is None or principal.kind == "session":
        raise Unauthenticated
    rate_limits.take(limit, principal.actor)
    return principal


def check_again(scope: Mapping[str, Any], principal: Principal, *, authorization: str = "") -> None:
    """Whether whoever was let in may stay. Counted against no limit. Synchronous.

    scope: of their connection; authorization: the header, where that is not in the scope. A ticket is good for one
    look, and for its connection. Raises Unauthenticated: logged out, key revoked, account closed, a token's time over.
    """
    request = request_from_scope(scope)
    if authorization:
        request.META["HTTP_AUTHORIZATION"] = authorization
    named = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")[2].strip()
    if (named or request.GET.get("ticket", "") or request.GET.get("access_token", "")).startswith(stream_tickets.MARK):
        may_stay = User.objects.filter(pk=principal.user.pk, is_active=True).exists()
    else:
        found = authenticate(request, from_query=True)
        may_stay = found is not None and found.user.pk == principal.user.pk
    if not may_stay:
        raise Unauthenticated


def admit_anyone(request: HttpRequest, limit: rate_limits.Limit) -> None:
    """For doors that are open to all, as the login is: counted by address. Raises RateLimited."""
    request.get_host()
    rate_limits.take(limit, f"address:{client_ip.network_of(client_ip.of_request(request))}")
