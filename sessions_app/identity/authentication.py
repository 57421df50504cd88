"""Authentication for every surface: turns a bearer token, an API key or a browser session into a Principal.

Credentials are read from the Authorization header and the session cookie. A URL is logged by proxies and browsers: of
its query, only one-time tickets (`ticket`) are accepted, and `access_token` where a protocol prescribes it, with tokens
of short life. An API key in a URL is always refused.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from io import BytesIO
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth import get_user as get_session_user
from django.contrib.auth.models import AnonymousUser, User
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.crypto import constant_time_compare

from audit_app import fresh_login
from audit_app.kernel.errors import Forbidden
from sessions_app import hot_queries
from sessions_app.identity import (
    access_tokens,
    api_keys,
    client_ip,
    rate_limits,
    scopes,
    session_tokens,
    signed_claims,
    stream_tickets,
)
from sessions_app.identity.principal import Principal, Unauthenticated

QueryCredential = Literal["none", "ticket", "token"]
_PASSWORDS = "django.contrib.auth.backends.ModelBackend"


class CredentialInQuery(Unauthenticated):
    """A credential in the URL is not accepted here, because URLs are logged."""

    code = "credential_in_query"


def authenticate(source: HttpRequest | Mapping[str, Any], *, from_query: QueryCredential = "none") -> Principal | None:
    """Return the principal of a request, None if it carries no credential. Synchronous, one to three queries.

    source: a Django request, or the ASGI scope of a consumer.
    from_query: accept of the query string nothing, one-time tickets (`ticket`), or short-lived tokens (`access_token`)
        too. Where they are not accepted, a request with `access_token` is refused.
    For a browser session (kind `session`) the caller must check CSRF (`check_csrf`) or the Origin.
    Raises Unauthenticated for an invalid credential, RateLimited for too many of those from one address, MissingScope
    for an API key that does not extend to the surface of the path.
    """
    request = source if isinstance(source, HttpRequest) else request_from_scope(source)
    in_query = _query_credential(request, from_query)
    scheme, _, credential = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    credential = credential.strip() if scheme.lower() == "bearer" else ""
    if scheme.lower() == "bearer" or in_query:
        found = replace(_bearer(request, credential or in_query), surface=scopes.surface_at(request.path))
        if request.path not in scopes.EXEMPT_PATHS:
            found.require_surface()
        return found
    user = _session_user(request)
    if user is None:
        return None
    return Principal(
        user,
        "session",
        authenticated_at=fresh_login.time_of_session(request.session),
        password_stamp=signed_claims.password_stamp(user),
        session_key=request.session.session_key or "",
    )


def _query_credential(request: HttpRequest, accepted: QueryCredential) -> str:
    """Return the credential of the query, or empty. Raises CredentialInQuery for one that may not be there."""
    token = request.GET.get("access_token", "")
    ticket = request.GET.get("ticket", "") if accepted != "none" else ""
    if token and accepted != "token":
        raise CredentialInQuery(
            "Tokens in the URL are not accepted here, because URLs are logged. Send `Authorization: Bearer …` instead"
            + (", or `?ticket=…` with a ticket of POST /api/auth/ticket." if accepted == "ticket" else ".")
        )
    if token.startswith(api_keys.MARK):
        raise CredentialInQuery(
            "API keys in the URL are not accepted, because URLs are logged. Exchange the key for a ticket "
            "(POST /api/auth/ticket) or a token (POST /token/issue), or send it as `Authorization: Bearer …`."
        )
    if ticket and not ticket.startswith(stream_tickets.MARK):
        raise CredentialInQuery("`ticket` in the URL accepts only tickets of POST /api/auth/ticket.")
    return ticket or token


def request_from_scope(scope: Mapping[str, Any]) -> HttpRequest:
    """Return a Django request for the ASGI scope of a consumer, without a body. Raises UnicodeDecodeError."""
    return ASGIRequest({"method": "GET", **scope}, BytesIO())


def check_csrf(request: HttpRequest) -> None:
    """Raise Forbidden (csrf_failed) if a request that is authenticated by a cookie has no valid CSRF token."""
    check = _CsrfCheck(_checked_view)
    check.process_request(request)
    reason = check.process_view(request, _checked_view, (), {})
    if reason is not None:
        raise Forbidden(f"CSRF check failed: {reason}", code="csrf_failed")


class _CsrfCheck(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def _checked_view(request: HttpRequest) -> HttpResponse:
    """Placeholder for Django's check, which reads the exemption flag of a view. Never called."""
    return HttpResponse()


def _bearer(request: HttpRequest, credential: str) -> Principal:
    try:
        if credential.startswith(api_keys.MARK):
            return api_keys.authenticate_key(credential)
        if credential.startswith(stream_tickets.MARK):
            return stream_tickets.redeem_ticket(credential)
        if session_tokens.is_session_token(credential):
            return session_tokens.authenticate_token(credential)
        return access_tokens.authenticate_token(credential)
    except Unauthenticated:
        address = client_ip.network_of(client_ip.of_request(request))
        rate_limits.take(rate_limits.login_limit(), f"address:{address}")
        raise


def _session_user(request: HttpRequest) -> User | None:
    if not hasattr(request, "session"):
        store = import_module(settings.SESSION_ENGINE).SessionStore
        request.session = store(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    user = user_of_session(request)
    return user if isinstance(user, User) and user.is_active else None


def user_of_session(request: HttpRequest) -> User | AnonymousUser:
    """Return the user of a request's browser session, by a compiled statement if the session is plainly valid.

    Django decides in all other cases: a changed password or key, another backend, a deactivated or deleted user.
    """
    session = request.session
    if SESSION_KEY in session and session.get(BACKEND_SESSION_KEY) == _PASSWORDS:
        user = hot_queries.FIND_USER.first(user_id=int(session[SESSION_KEY]))
        digest = session.get(HASH_SESSION_KEY, "")
        if user and user.is_active and constant_time_compare(digest, user.get_session_auth_hash()):
            return user
    return get_session_user(request)
