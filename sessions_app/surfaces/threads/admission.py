"""Admission of requests: the credentials of every surface, or the cookie that this protocol's sign-in sets.

The cookie holds a login's access token. Another site cannot forge a request with it: the cookie is `SameSite=Lax`, and
bodies must be JSON.
"""

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from sessions_app.identity import rate_limits
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import admit as admit_by_credential

COOKIE = "ks_uat"
_PREFIXES = ("eyJ", "sk-user-")  # of JWTs and API keys


def admit(request: HttpRequest, limit: rate_limits.Limit) -> Principal:
    """Return the principal of a request that may proceed, as `identity.request_admission.admit`. Synchronous."""
    if "HTTP_AUTHORIZATION" not in request.META and (token := token_of(request)):
        request.META["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return admit_by_credential(request, limit)


def token_of(request: HttpRequest) -> str:
    """Return the token of the cookie, or empty. The protocol's generated client sends the value without a name."""
    if token := request.COOKIES.get(COOKIE, ""):
        return token
    bare = request.META.get("HTTP_COOKIE", "").strip()
    return bare if bare.startswith(_PREFIXES) and not set(bare) & set("=; ") else ""


def set_cookie(response: HttpResponseBase, token: str) -> None:
    seconds, secure = settings.KOMAND_JWT_MINUTES * 60, settings.SESSION_COOKIE_SECURE
    response.set_cookie(COOKIE, token, max_age=seconds, httponly=True, samesite="Lax", secure=secure)


def delete_cookie(response: HttpResponseBase) -> None:
    response.delete_cookie(COOKIE, samesite="Lax")
