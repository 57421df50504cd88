"""Login and logout on the page."""

from django.contrib.auth import login as remember
from django.contrib.auth import logout as forget
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from audit_app.kernel.errors import RateLimited
from sessions_app.identity.login import LockedOut, LoginRefused, log_in
from sessions_app.surfaces.chat import labels


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """Show the login form, or log in with its data."""
    target = _safe_target(request)
    if request.user.is_authenticated:
        return HttpResponseRedirect(target)
    if request.method == "GET":
        return _form(request, target)
    name, password = request.POST.get("username", "").strip(), request.POST.get("password", "")
    if not (name and password):
        return _form(request, target, "Enter your e-mail address or user name, and your password.", 400)
    try:
        user = log_in(request, name, password)
    except LoginRefused as error:
        return _form(request, target, error.message, 401)
    except RateLimited as error:
        wait = labels.duration(error.retry_after_seconds)
        many = "Too many failed logins" if isinstance(error, LockedOut) else "Too many attempts"
        response = _form(request, target, f"{many} from your address. Try again in {wait}.", 429)
        response.headers["Retry-After"] = str(error.retry_after_seconds)
        return response
    remember(request, user)
    return HttpResponseRedirect(target)


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    forget(request)
    return HttpResponseRedirect("/login")


def _form(request: HttpRequest, target: str, problem: str = "", status: int = 200) -> HttpResponse:
    given = request.POST.get("username", "")
    return render(request, "login.html", {"next": target, "problem": problem, "username": given}, status=status)


def _safe_target(request: HttpRequest) -> str:
    """Return the address to go to after the login: a path of this host, else `/`."""
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    hosts, is_secure = {request.get_host()}, request.is_secure()
    return wanted if url_has_allowed_host_and_scheme(wanted, hosts, require_https=is_secure) else "/"
