"""Login by OpenID Connect on the page: to the provider, back from it, and out."""

from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from audit_app import fresh_login
from audit_app.kernel.errors import AppError
from sessions_app.identity import external_users, oidc
from sessions_app.identity.login import record_login
from sessions_app.surfaces.account import login_views
from sessions_app.surfaces.account.login_views import ID_TOKEN, complete
from sessions_app.surfaces.base.addresses import origin_for
from sessions_app.surfaces.base.pages import PageRequest, page, safe_target

_WANTED = "oidc_wanted"


@never_cache
@require_GET
def begin(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider's login."""
    return _begin(request, again=False)


@never_cache
@page("GET")
def begin_again(request: PageRequest) -> HttpResponse:
    """Redirect to the provider, which asks a logged-in user for the credentials again."""
    return _begin(request, again=True)


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Log in the user whom the provider names, or renew the login of the same user."""
    wanted = request.session.pop(_WANTED, {})
    target, again = str(wanted.get("target") or "/"), bool(wanted.get("again"))
    try:
        claims, id_token = oidc.complete(request, again=again)
        if again:
            return _renew(request, claims, target)
        user = external_users.find_or_create(claims)
    except AppError as error:
        return login_views.refused(request, target, error)
    response = complete(request, user, target, method="oidc")
    request.session[ID_TOKEN] = id_token
    request.session.set_expiry(timedelta(hours=settings.KOMAND_OIDC_HOURS))
    return response


@never_cache
@require_GET
def logout(request: HttpRequest) -> HttpResponse:
    """End the session at the provider as well, after the one here."""
    id_token = request.session.pop(ID_TOKEN, "")
    url = oidc.logout_url(request, id_token, f"{origin_for(request)}/login") if id_token else ""
    return HttpResponseRedirect(url or "/login")


def _begin(request: HttpRequest, *, again: bool) -> HttpResponse:
    target = safe_target(request)
    request.session[_WANTED] = {"target": target, "again": again}
    try:
        return oidc.begin(request, f"{origin_for(request)}/login/oidc/callback", again=again)
    except AppError as error:
        return login_views.refused(request, target, error)


def _renew(request: HttpRequest, claims: dict[str, object], target: str) -> HttpResponse:
    if not (request.user.is_authenticated and external_users.is_of(request.user, claims)):
        raise oidc.ProviderRefused("You logged in as somebody else. Log in as the user of this page.")
    record_login(request, request.user, method="oidc, confirmed")
    request.session.cycle_key()
    fresh_login.renew(request.session)
    return HttpResponseRedirect(target)
