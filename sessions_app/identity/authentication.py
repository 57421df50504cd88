"""Authentication for every surface: turns a bearer token, an API key or a browser session into a Principal.

Credentials are read from the Authorization header and the session cookie; from the query (`access_token`, `ticket`)
only for protocols whose clients cannot send a header.
"""

from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user as get_session_user
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from audit_app.kernel.errors import Forbidden
from sessions_app.identity import access_tokens, api_keys, client_ip, rate_limits, session_tokens, stream_tickets
from sessions_app.identity.principal import Principal, Unauthenticated


def authenticate(source: HttpRequest | Mapping[str, Any], *, from_query: bool = False) -> Principal | None:
    """Return the principal of a request, None if it carries no credential. Synchronous, one to three queries.

    source: a Django request, or the ASGI scope of a consumer; from_query: accept a credential in the query string.
    For a browser session (kind `session`) the caller must check CSRF (`check_csrf`) or the Origin.
    Raises Unauthenticated for an invalid credential, RateLimited for too many of those from one address.
    """
    request = source if isinstance(source, HttpRequest) else request_from_scope(source)
    scheme, _, credential = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() == "bearer":
        return _bearer(request, credential.strip())
    if from_query and (credential := request.GET.get("ticket", "") or request.GET.get("access_token", "")):
        return _bearer(request, credential)
    user = _session_user(request)
    return Principal(user, "session") if user is not None else None


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
        return Principal(access_tokens.get_user(credential), "jwt")
    except Unauthenticated:
        address = client_ip.network_of(client_ip.of_request(request))
        rate_limits.take(rate_limits.login_limit(), f"address:{address}")
        raise


def _session_user(request: HttpRequest) -> User | None:
    if not hasattr(request, "session"):
        store = import_module(settings.SESSION_ENGINE).SessionStore
        request.session = store(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    user = get_session_user(request)
    return user if isinstance(user, User) and user.is_active else None
