"""The decorator of the views of pages: requires a login and renders errors."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast
from urllib.parse import urlencode, urlsplit

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from audit_app.fresh_login import FreshLoginRequired
from audit_app.kernel import context
from audit_app.kernel.errors import AppError
from sessions_app.surfaces.base.http_errors import http_error_of

P = ParamSpec("P")

CONFIRM_URL = "/login/confirm"


class PageRequest(HttpRequest):
    """A request of a logged-in user, perhaps sent by htmx."""

    user: User
    htmx: HtmxDetails


_View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]
_PageView = Callable[Concatenate[PageRequest, P], HttpResponseBase]


def page(*methods: str) -> Callable[[_PageView[P]], _View[P]]:
    """Require a login, then one of these methods if any are named, and render AppErrors as a note or a page."""

    def declare(view: _PageView[P]) -> _View[P]:
        of_methods = require_http_methods(list(methods))(view) if methods else view

        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_page(cast(PageRequest, request), "/login")
            try:
                response = of_methods(cast(PageRequest, request), *args, **kwargs)
            except AppError as error:
                return refused(cast(PageRequest, request), error)
            response.headers.setdefault("Cache-Control", "no-store")
            return response

        return guarded

    return declare


def refused(request: PageRequest, error: AppError) -> HttpResponse:
    """Return the response for an error: a note for htmx, otherwise a page. A missing fresh login: the page for it."""
    if isinstance(error, FreshLoginRequired):
        return _to_page(request, CONFIRM_URL)
    failure = http_error_of(error)
    template, shown = "chat/_note.html" if request.htmx else "error.html", {"failure": failure}
    response = render(request, template, {**shown, "request_id": context.request_id.get()}, status=failure.status)
    for name, value in failure.headers.items():
        response.headers[name] = value
    return response


def _to_page(request: PageRequest, page_url: str) -> HttpResponse:
    """Redirect to a page, and from there back to this one (of htmx: the page that it was on)."""
    if request.htmx:
        wanted = request.htmx.current_url_abs_path or "/"
    else:  # what a POST was sent to cannot be shown: back to the page with the form
        wanted = request.get_full_path() if request.method == "GET" else page_of_referer(request)
    target = page_url + "?" + urlencode({"next": wanted}) if wanted != "/" else page_url
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)


def safe_target(request: HttpRequest) -> str:
    """Return the address to go to afterwards, `next` of the request if it is a path of this host, else `/`."""
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    hosts, is_secure = {request.get_host()}, request.is_secure()
    return wanted if url_has_allowed_host_and_scheme(wanted, hosts, require_https=is_secure) else "/"


def page_of_referer(request: HttpRequest) -> str:
    """Return the path of the page of this host from which a request came, `/` if it is unknown."""
    came_from = urlsplit(request.headers.get("Referer", ""))
    path = came_from.path + (f"?{came_from.query}" if came_from.query else "")
    return path if came_from.netloc == request.get_host() and path else "/"
