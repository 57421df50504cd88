"""Session tokens: short-lived JWTs in place of an API key or a login, for clients that do not send those themselves.

A token has the rights that the credential from which it was issued has when it is used, and ends with it: revoking the
key, logging out or changing the password voids it.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

import jwt
from django.conf import settings
from django.utils import timezone

from audit_app.kernel.errors import InvalidInput
from sessions_app.identity import access_tokens, api_keys, signed_claims, stream_tickets
from sessions_app.identity.principal import Principal, Unauthenticated

_AUDIENCE = "komand:session"


class SessionTokenRefused(Unauthenticated):
    """The session token is invalid or expired. Request a new one with your key or login."""

    code = "token_refused"


def issue_session_token(principal: Principal, claims: dict[str, Any]) -> str:
    """Return a session token that ends with the principal's credential.

    claims: further claims for the client. Raises InvalidInput (not_exchangeable) unless the credential is an API key, a
    token of a login or another session token.
    """
    if not principal.credential.startswith(("key:", "login:")):
        message = "Only an API key or the access token of a login can be exchanged for a session token."
        raise InvalidInput(message, code="not_exchangeable")
    # `scopes` is for the release before, and for clients that look into their token.
    own = {"scopes": sorted(principal.scopes), "of": principal.credential, "iat": timezone.now()}
    claims = {**claims, **own, **signed_claims.auth_time(principal.authenticated_at)}
    return signed_claims.encode(principal.user, _AUDIENCE, timedelta(minutes=settings.KOMAND_JWT_MINUTES), claims)


def is_session_token(credential: str) -> bool:
    """Return whether a bearer token claims to be a session token. Verifies nothing."""
    return _peek(credential).get("aud") == _AUDIENCE


def authenticate_token(credential: str) -> Principal:
    """Return the principal of a valid session token. Raises SessionTokenRefused."""
    try:
        claims = signed_claims.decode(credential, _AUDIENCE, "of")
    except jwt.InvalidTokenError:
        raise SessionTokenRefused from None
    user = signed_claims.find_user(claims)
    credential = str(claims["of"])
    scopes = find_scopes([credential]).get(credential)
    if user is None or scopes is None:
        raise SessionTokenRefused
    kind: Literal["api_key", "jwt"] = "api_key" if credential.startswith("key:") else "jwt"
    return Principal(
        user,
        kind,
        scopes,
        credential=credential,
        authenticated_at=signed_claims.read_auth_time(claims),
        valid_until=signed_claims.read_expiry(claims),
        password_stamp=claims["cred"],
    )


def is_valid_credential(credential: str) -> bool:
    """Return whether a `Principal.credential` is still valid. An empty one is valid as long as its user."""
    return credential in find_scopes([credential])


def find_scopes(credentials: Collection[str]) -> dict[str, frozenset[str]]:
    """Return those of the values of `Principal.credential` that are valid now, with their scopes if they have any.

    One statement for all keys, and one for all logins.
    """
    named = {text: text.removeprefix(stream_tickets.CREDENTIAL).partition(":")[::2] for text in credentials}
    keys = api_keys.find_scopes({UUID(name) for kind, name in named.values() if kind == "key"})
    closed = access_tokens.find_closed({UUID(name) for kind, name in named.values() if kind == "login"})
    found: dict[str, frozenset[str]] = {}
    for text, (kind, name) in named.items():
        if kind == "key" and UUID(name) in keys:
            found[text] = keys[UUID(name)]
        elif kind != "key" and not (kind == "login" and UUID(name) in closed):
            found[text] = frozenset()
    return found


def _peek(credential: str) -> dict[str, Any]:
    try:
        claims: dict[str, Any] = jwt.decode(credential, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return {}
    return claims
