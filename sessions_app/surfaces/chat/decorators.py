"""What every view of the page has around it: the login, and errors in the page's own words."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from audit_app.kernel import context
from audit_app.kernel.errors import AppError
from sessions_app.surfaces.base.http_errors import http_error_of

P = ParamSpec("P")


class PageRequest(HttpRequest):
    """A request as the page's views get it: somebody is logged in, and htmx may have sent it."""

    user: User
    htmx: HtmxDetails


def page(
    view: Callable[Concatenate[PageRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """Let only people in who are logged in, and turn expected errors into a note or a page that says what to do."""

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not request.user.is_authenticated:
            return _to_login(cast(PageRequest, request))
        try:
            response = view(cast(PageRequest, request), *args, **kwargs)
        except AppError as error:
            return refused(cast(PageRequest, request), error)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return guarded


def refused(request: PageRequest, error: AppError) -> HttpResponse:
    """The answer to a request that cannot be served: a note where htmx asked, otherwise a page."""
    failure = http_error_of(error)
    template = "chat/_note.html" if request.htmx else "error.html"
    response = render(
        request, template, {"failure": failure, "request_id": context.request_id.get()}, status=failure.status
    )
    for name, value in failure.headers.items():
        response.headers[name] = value
    return response


def _to_login(request: PageRequest) -> HttpResponse:
    """To the login and back: to the page that htmx was on, when it sent the request."""
    wanted = (request.htmx.current_url_abs_path or "/") if request.htmx else request.get_full_path()
    target = "/login?" + urlencode({"next": wanted}) if wanted != "/" else "/login"
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)
