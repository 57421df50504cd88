"""Who may come in, for this protocol: a bearer as everywhere, or the cookie that its sign-in sets.

The cookie carries a token of a login. Pages of other sites cannot make a browser send it along with a change: it is for
same-site requests only, and bodies have to be JSON.
"""

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from sessions_app.identity import rate_limits
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import admit as admit_by_credential

COOKIE = "ks_uat"
_MARKS = ("eyJ", "sk-user-")  # how a JWT and an API key begin


def admit(request: HttpRequest, limit: rate_limits.Limit) -> Principal:
    """As `identity.admission.admit`."""
    if "HTTP_AUTHORIZATION" not in request.META and (token := token_of(request)):
        request.META["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return admit_by_credential(request, limit)


def token_of(request: HttpRequest) -> str:
    """The token in the cookie; its generated client sends the bare value, without the cookie's name."""
    if token := request.COOKIES.get(COOKIE, ""):
        return token
    bare = request.META.get("HTTP_COOKIE", "").strip()
    return bare if bare.startswith(_MARKS) and not set(bare) & set("=; ") else ""


def set_cookie(response: HttpResponseBase, token: str) -> None:
    response.set_cookie(
        COOKIE,
        token,
        max_age=settings.KOMAND_JWT_MINUTES * 60,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


def delete_cookie(response: HttpResponseBase) -> None:
    response.delete_cookie(COOKIE, samesite="Lax")
