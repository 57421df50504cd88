"""Middleware of Django requests: request id, access log, CORS, host check, actor.

Consumers are routed before Django and have their own wrapper (`sessions_app/surfaces/base/consumers.py`).
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.core.handlers.asgi import ASGIHandler
from django.core.signals import request_started
from django.db import close_old_connections, reset_queries
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode

from audit_app.fresh_login import FreshLoginRequired
from audit_app.kernel import context
from sessions_app.identity import logins
from sessions_app.identity.authentication import user_of_session
from sessions_app.identity.request_ids import request_id_from
from sessions_app.surfaces.base.cors import cors_headers
from sessions_app.surfaces.base.pages import CONFIRM_URL, page_of_referer
from sessions_app.surfaces.base.surface import surface_at

logger = logging.getLogger("komand.access")

GetResponse = Callable[[HttpRequest], HttpResponseBase]
_QUIET = ("/health", "/static/", "/favicon")


class _Middleware:
    """The part that all have in common."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response


class RequestContext(_Middleware):
    """Binds the caller's request id, or a new one, for logs and events, returns it, and writes the access log."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request_id = request_id_from(request.headers.get("X-Request-Id"))
        started = time.monotonic()
        with context.bind(request_id=request_id, actor="anonymous"):
            response = self.get_response(request)
            response.headers["X-Request-Id"] = request_id
            level = logging.DEBUG if request.path.startswith(_QUIET) else logging.INFO
            milliseconds = (time.monotonic() - started) * 1000
            logger.log(level, "%s %s %d %.0f ms", request.method, request.path, response.status_code, milliseconds)
        return response


class Handler(ASGIHandler):
    """Django's handler, with all middleware and the view in one call of the request's thread.

    Django's own goes back to the event loop before the view, because it might be asynchronous, and to the thread again.
    """

    def __init__(self) -> None:
        for receiver in (reset_queries, close_old_connections):
            request_started.disconnect(receiver)  # another call for a thread that is new, without connections
        super().__init__()

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)
        chain: Any = self._middleware_chain  # type: ignore[has-type] # not annotated by Django
        self._middleware_chain = sync_to_async(chain, thread_sensitive=True)


class Login(AuthenticationMiddleware):
    """Sets the user of the browser session, who is read at the first use."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        user: Any = SimpleLazyObject(lambda: user_of_session(request))
        request.user = user


class Actor(_Middleware):
    """Binds the logged-in user as the actor. A request without a session cookie costs no query here."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if settings.SESSION_COOKIE_NAME not in request.COOKIES or not request.user.is_authenticated:
            return self.get_response(request)
        context.actor.set(f"user:{request.user.pk}")  # RequestContext restores it, after its line in the access log
        logins.touch(request, request.user)
        return self.get_response(request)


class CrossOrigin(_Middleware):
    """Adds CORS headers for the origins that the settings list, and answers their preflight requests."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        origin = request.headers.get("Origin", "")
        if not origin or surface_at(request.path) is None:
            return self.get_response(request)
        is_preflight = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        response = HttpResponse(status=204) if is_preflight else self.get_response(request)
        for name, value in cors_headers(origin, settings.KOMAND_CORS_ORIGINS, preflight=is_preflight).items():
            response.headers[name] = value
        return response


class FreshLogin(_Middleware):
    """Redirects to the confirmation of the login from pages of the admin that take a fresh one."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, FreshLoginRequired):
            return None
        back = request.get_full_path() if request.method == "GET" else page_of_referer(request)
        return HttpResponseRedirect(f"{CONFIRM_URL}?{urlencode({'next': back})}")


class PagePolicy(_Middleware):
    """Adds the Permissions-Policy to pages; relaxes the Content-Security-Policy for the admin, whose theme needs it."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            response.headers.setdefault("Permissions-Policy", settings.KOMAND_PERMISSIONS_POLICY)
        if request.path.startswith(settings.KOMAND_ADMIN_PREFIX):
            response._csp_update = settings.KOMAND_ADMIN_CSP  # type: ignore[attr-defined] # what csp's own decorator sets
        return response


class HostGuard(CommonMiddleware):
    """Refuses foreign Host headers, except for health probes, which use the address."""

    def process_request(self, request: HttpRequest) -> Any:
        return None if request.path.startswith("/health") else super().process_request(request)
