"""Login by an OpenID Connect provider: authorization code with PKCE, state and nonce. Needs the extra `oidc`.

Users are known by issuer and subject. Their roles follow the groups that the provider names at each login.
"""

import time
from functools import lru_cache
from typing import Any

import requests
from authlib.integrations.django_client import OAuth, OAuthError
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from joserfc.errors import JoseError

from audit_app import services as audit
from sessions_app.identity.principal import Unauthenticated

_TIMEOUT_SECONDS = 10
_CLOCK_SKEW_SECONDS = 60


class ProviderRefused(Unauthenticated):
    """The login with your organization failed. Try again; if it fails again, ask your administrator."""

    code = "provider_refused"


def begin(request: HttpRequest, callback_url: str, *, again: bool = False) -> HttpResponse:
    """Redirect to the login of the provider. again: it has to ask for the user's credentials, also in an open session.

    Raises ProviderRefused if the provider cannot be reached.
    """
    more = {"prompt": "login", "max_age": "0"} if again else {}
    try:
        response: HttpResponse = _client().authorize_redirect(request, callback_url, **more)
    except (OAuthError, requests.RequestException, RuntimeError, ValueError) as error:
        raise _refused(error) from error
    return response


def complete(request: HttpRequest, *, again: bool = False) -> tuple[dict[str, Any], str]:
    """Return the verified claims and the ID token of a request that the provider sent back. Network access.

    again: as for `begin`: the provider must state that the user has just logged in. Raises ProviderRefused, audited.
    """
    try:
        token = _client().authorize_access_token(request, claims_options=_expected(), leeway=_CLOCK_SKEW_SECONDS)
        claims, id_token = dict(token["userinfo"]), str(token["id_token"])
    except (OAuthError, JoseError, requests.RequestException, RuntimeError, ValueError, KeyError) as error:
        raise _refused(error) from error
    earliest = time.time() - settings.KOMAND_FRESH_LOGIN_MINUTES * 60 - _CLOCK_SKEW_SECONDS
    if again and not (isinstance(claims.get("auth_time"), int) and claims["auth_time"] >= earliest):
        raise _refused(ValueError("the provider did not ask for the credentials again"))
    return claims, id_token


def _expected() -> dict[str, dict[str, Any]]:
    """Return the claims that an ID token must have."""
    issuer = settings.KOMAND_OIDC_ISSUER
    return {
        "iss": {"essential": True, "values": [issuer, f"{issuer}/"]},
        "aud": {"essential": True, "value": settings.KOMAND_OIDC_CLIENT_ID},
        "sub": {"essential": True},
    }


def logout_url(request: HttpRequest, id_token: str, back_to: str) -> str:
    """Return the address at which the provider ends its session, "" if it has none or cannot be reached."""
    try:
        response = _client().logout_redirect(request, post_logout_redirect_uri=back_to, id_token_hint=id_token)
    except (OAuthError, requests.RequestException, RuntimeError, ValueError):
        return ""
    return str(response.url)


def _client() -> Any:
    return _client_of(settings.KOMAND_OIDC_ISSUER, settings.KOMAND_OIDC_CLIENT_ID, settings.KOMAND_OIDC_CLIENT_SECRET)


@lru_cache(maxsize=4)
def _client_of(issuer: str, client_id: str, client_secret: str) -> Any:
    """Return the client, which keeps the provider's metadata and keys."""
    return OAuth().register(
        "komand",
        server_metadata_url=f"{issuer}/.well-known/openid-configuration",
        client_id=client_id,
        client_secret=client_secret,
        client_kwargs={
            "scope": settings.KOMAND_OIDC_SCOPES,
            "code_challenge_method": "S256",
            "default_timeout": _TIMEOUT_SECONDS,
        },
    )


def _refused(error: Exception) -> ProviderRefused:
    audit.record("ProviderLoginRefused", details={"reason": f"{type(error).__name__}: {error}"[:300]})
    return ProviderRefused()
