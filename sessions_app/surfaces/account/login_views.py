"""Pages of the login: password, second factor, confirmation of an older login, logout."""

from typing import Any

from django.conf import settings
from django.contrib.auth import login as remember
from django.contrib.auth import logout as forget
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from audit_app import fresh_login
from audit_app.kernel.errors import AppError, RateLimited
from sessions_app.identity import external_users, invitations, login_links, logins, second_factor
from sessions_app.identity.login import LockedOut, LoginRefused, check_password, record_login
from sessions_app.identity.login_throttle import LoginDelayed
from sessions_app.surfaces.account import pending_login
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.pages import PageRequest, page, safe_target

ID_TOKEN = "oidc_id_token"  # noqa: S105 - a key of the session: the token of a provider's login, needed to end it
_BACKEND = "django.contrib.auth.backends.ModelBackend"


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """Show the login form, or check the password. The second factor, if needed, has a page of its own."""
    target = safe_target(request)
    if request.user.is_authenticated:
        return HttpResponseRedirect(target)
    if request.method == "GET":
        return _login_form(request, target)
    name, password = request.POST.get("username", "").strip(), request.POST.get("password", "")
    if not (name and password):
        return _login_form(request, target, "Enter your e-mail address or user name, and your password.", 400)
    try:
        user = check_password(request, name, password)
    except LoginRefused as error:
        return _login_form(request, target, error.message, 401)
    except RateLimited as error:
        many = "Too many failed logins" if isinstance(error, LockedOut | LoginDelayed) else "Too many attempts"
        place = "" if isinstance(error, LoginDelayed) else " from your address"
        return _wait(_login_form(request, target, f"{many}{place}. {_try_again(error)}", 429), error)
    return _ask_second_factor(request, user, target)


@never_cache
@sensitive_post_parameters("new_password1", "new_password2")
@require_http_methods(["GET", "POST"])
def accept_invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Let an invited user choose the first password, and log them in."""
    try:
        invited = invitations.find_invited(token)
        form = SetPasswordForm(invited, request.POST or None)
        if form.is_valid():
            invitations.accept(invited, form.cleaned_data["new_password1"])
            return _ask_second_factor(request, invited, "/", method="invitation")
    except invitations.InvitationRefused as error:
        return refused(request, "/", error)
    problem = " ".join(str(message) for messages in form.errors.values() for message in messages)
    shown = {"invited": invited, "problem": problem}
    return render(request, "account/invitation.html", shown, status=400 if problem else 200)


@never_cache
@require_http_methods(["GET", "POST"])
def use_link(request: HttpRequest, token: str) -> HttpResponse:
    """Log in the user of a login link that the start of this installation has printed."""
    try:
        linked = login_links.find_user(token)
        if request.user == linked:  # a later start has opened the browser
            return HttpResponseRedirect("/")
        if request.method == "GET":
            return render(request, "account/login_link.html", {"linked": linked})
        return _ask_second_factor(request, login_links.use(token), "/", method="link")
    except login_links.LoginLinkRefused as error:
        return refused(request, "/", error)


@never_cache
@require_http_methods(["GET", "POST"])
def code(request: HttpRequest) -> HttpResponse:
    """Ask for the code of the second factor, and complete the login."""
    target, user = safe_target(request), pending_login.find_user(request.session)
    if user is None:
        return HttpResponseRedirect(_with_next("/login", target))
    if second_factor.must_enrol(user):
        return HttpResponseRedirect(_with_next("/login/enrol", target))
    shown: dict[str, Any] = {"next": target}
    if request.method == "GET":
        return render(request, "account/code.html", shown)
    try:
        second_factor.check(user, request.POST.get("code", "").strip())
    except AppError as error:
        return _again(request, "account/code.html", shown, error)
    return complete(request, user, target)


@never_cache
@require_http_methods(["GET", "POST"])
def enrol(request: HttpRequest) -> HttpResponse:
    """Set up the second factor that the account needs, and complete the login."""
    target, user = safe_target(request), pending_login.find_user(request.session)
    if user is None or not second_factor.must_enrol(user):
        return HttpResponseRedirect(_with_next("/login", target))
    shown: dict[str, Any] = {"next": target, "enrolment": second_factor.begin_enrolment(user), "is_required": True}
    if request.method == "GET":
        return render(request, "account/enrol.html", shown)
    try:
        codes = second_factor.confirm_enrolment(user, request.POST.get("code", "").strip())
    except AppError as error:
        return _again(request, "account/enrol.html", shown, error)
    complete(request, user, target)
    return render(request, "account/recovery_codes.html", {"codes": codes, "next": target})


@never_cache
@sensitive_post_parameters("password")
@page("GET", "POST")
def confirm(request: PageRequest) -> HttpResponse:
    """Let a logged-in user prove again who they are, before an action that takes a fresh login."""
    target = safe_target(request)
    has_code, has_password = second_factor.is_asked(request.user), request.user.has_usable_password()
    shown = {"next": target, "has_code": has_code, "has_password": has_password}
    shown["provider"] = provider_name() if external_users.has_account(request.user) else ""
    if request.method == "GET":
        return render(request, "account/confirm.html", shown)
    try:
        user = check_password(request, request.user.get_username(), request.POST.get("password", ""))
        if user.pk != request.user.pk:  # the user name is somebody else's e-mail address
            raise LoginRefused
        second_factor.check(user, request.POST.get("code", "").strip())
    except LoginRefused:
        return _again(request, "account/confirm.html", shown, LoginRefused("Wrong password."))
    except AppError as error:
        return _again(request, "account/confirm.html", shown, error)
    record_login(request, user, method="confirmed")
    logins.renew_session(request)
    fresh_login.renew(request.session)
    return HttpResponseRedirect(target)


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """End the browser session; a provider's login goes on to end there, too."""
    id_token = request.session.get(ID_TOKEN)
    forget(request)
    if not (id_token and settings.KOMAND_OIDC_ISSUER):
        return HttpResponseRedirect("/login")
    request.session[ID_TOKEN] = id_token
    return HttpResponseRedirect("/login/oidc/logout")


def refused(request: HttpRequest, target: str, error: AppError) -> HttpResponse:
    """Return the login form with the error of a provider's login or of an invitation."""
    return _login_form(request, target, error.message, http_error_of(error).status)


def _ask_second_factor(request: HttpRequest, user: User, target: str, **details: str) -> HttpResponse:
    """Go on to the second factor of a user who knows the password, or complete the login if they need none."""
    if second_factor.must_enrol(user) or second_factor.is_asked(user):
        pending_login.store(request.session, user)
        return HttpResponseRedirect(_with_next("/login/code", target))
    return complete(request, user, target, **details)


def complete(request: HttpRequest, user: User, target: str, **details: str) -> HttpResponse:
    """Open the browser session of a user whose login is complete, and go to the target. Audited."""
    record_login(request, user, **details)
    remember(request, user, backend=_BACKEND)
    return HttpResponseRedirect(target)


def _login_form(request: HttpRequest, target: str, problem: str = "", status: int = 200) -> HttpResponse:
    given = request.POST.get("username", "")
    shown = {"next": target, "problem": problem, "username": given, "provider": provider_name()}
    return render(request, "account/login.html", shown, status=status)


def provider_name() -> str:
    """Return the name of the OpenID Connect provider, "" if there is none."""
    return settings.KOMAND_OIDC_NAME if settings.KOMAND_OIDC_ISSUER else ""


def _again(request: HttpRequest, template: str, shown: dict[str, Any], error: AppError) -> HttpResponse:
    """Return the form again with the error, and a Retry-After header if there is a time to wait."""
    failure = http_error_of(error)
    problem = f"{error.message} {_try_again(error)}" if isinstance(error, RateLimited) else error.message
    response = render(request, template, {**shown, "problem": problem}, status=failure.status)
    return _wait(response, error) if isinstance(error, RateLimited) else response


def _wait(response: HttpResponse, error: RateLimited) -> HttpResponse:
    response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def _try_again(error: RateLimited) -> str:
    seconds = error.retry_after_seconds
    return f"Try again in {seconds} s." if seconds < 60 else f"Try again in {-(-seconds // 60)} min."


def _with_next(path: str, target: str) -> str:
    return f"{path}?{urlencode({'next': target})}" if target != "/" else path
