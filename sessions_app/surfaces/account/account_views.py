"""Pages of a user's own account: second factor, recovery codes, logins on all devices."""

from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from audit_app import fresh_login
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import visible
from sessions_app.identity import logins, second_factor
from sessions_app.identity.devices import describe
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.pages import PageRequest, page


@page("GET")
def account(request: PageRequest) -> HttpResponse:
    """Show the state of the second factor, and where the user is logged in."""
    own_key = request.session.session_key
    shown = {
        "is_enrolled": second_factor.is_enrolled(request.user),
        "recovery_codes": second_factor.count_recovery_codes(request.user),
        "logins": [
            {"row": row, "device": visible(describe(row.user_agent)), "is_own": row.session_key == own_key}
            for row in logins.list_logins(request.user)
        ],
    }
    return render(request, "account/account.html", shown)


@page("POST")
def sign_out(request: PageRequest, login_id: UUID) -> HttpResponse:
    """End one login of the user."""
    logins.end_login(request.user, login_id)
    return HttpResponseRedirect("/account")


@page("POST")
def sign_out_elsewhere(request: PageRequest) -> HttpResponse:
    """End all logins of the user but this one."""
    logins.sign_out_everywhere(request.user, keep_session=request.session.session_key or "")
    return HttpResponseRedirect("/account")


@never_cache
@page("GET", "POST")
def add_second_factor(request: PageRequest) -> HttpResponse:
    """Show the secret for an authenticator app, and switch the second factor on with its first code."""
    fresh_login.require(request, "set up a second factor")
    shown = {"enrolment": second_factor.begin_enrolment(request.user), "next": "/account"}
    if request.method == "GET":
        return render(request, "account/enrol.html", shown)
    try:
        codes = second_factor.confirm_enrolment(request.user, request.POST.get("code", "").strip())
    except AppError as error:
        return render(
            request, "account/enrol.html", {**shown, "problem": error.message}, status=http_error_of(error).status
        )
    return render(request, "account/recovery_codes.html", {"codes": codes, "next": "/account"})


@page("POST")
def remove_second_factor(request: PageRequest) -> HttpResponse:
    """Remove the authenticator app. Who has to have one sets up the next one at the next login."""
    fresh_login.require(request, "remove your second factor")
    second_factor.remove(request.user, actor=f"user:{request.user.pk}")
    return HttpResponseRedirect("/account")


@never_cache
@page("POST")
def renew_recovery_codes(request: PageRequest) -> HttpResponse:
    """Replace the recovery codes, and show the new ones once."""
    fresh_login.require(request, "see new recovery codes")
    codes = second_factor.renew_recovery_codes(request.user)
    return render(request, "account/recovery_codes.html", {"codes": codes, "next": "/account"})
