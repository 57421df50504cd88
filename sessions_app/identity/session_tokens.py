"""Session tokens: short-lived JWTs that stand for an API key or a login, for clients that do not send those themselves.

Such a token may do what the credential may that it was made of, and ends with it: revoking the key, logging out or
changing the password voids it.
"""

import hmac
import secrets
from datetime import timedelta
from typing import Any
from uuid import UUID

import jwt
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from audit_app.kernel.errors import InvalidInput
from sessions_app.identity import access_tokens, api_keys
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.models import RefreshToken

_ALGORITHM = "HS256"
_AUDIENCE = "komand:session"
_REQUIRED = ["sub", "exp", "aud", "cred", "scopes", "of"]


class SessionTokenRefused(Unauthenticated):
    """This session token is not valid (any more). Exchange your key again."""

    code = "token_refused"


def issue_session_token(principal: Principal, credential: str, claims: dict[str, Any]) -> str:
    """A session token for a credential that was just proven. claims: what the client is told beside. Raises
    InvalidInput for a credential that stands for itself alone."""
    if is_session_token(credential):
        of = str(_peek(credential)["of"])  # renewed: it goes on for what it was made of
    elif principal.kind == "api_key":
        of = f"key:{api_keys.get_key_id(credential)}"
    elif principal.kind == "jwt" and (login := access_tokens.find_login(credential)):
        of = f"login:{login}"
    else:
        raise InvalidInput("Only an API key or a login's token can be exchanged.", code="not_exchangeable")
    now = timezone.now()
    kept = {
        "sub": str(principal.user.pk),
        "scopes": sorted(principal.scopes),
        "cred": _stamp(principal.user),
        "of": of,
        "aud": _AUDIENCE,
        "jti": secrets.token_hex(16),
        "iat": now,
        "exp": now + timedelta(minutes=settings.KOMAND_JWT_MINUTES),
    }
    return jwt.encode({**claims, **kept}, settings.KOMAND_JWT_KEY, algorithm=_ALGORITHM)


def is_session_token(credential: str) -> bool:
    """Whether a bearer token says that it is one of these. Proves nothing."""
    return _peek(credential).get("aud") == _AUDIENCE


def authenticate_token(credential: str) -> Principal:
    """The principal of a valid session token. Raises SessionTokenRefused."""
    try:
        claims: dict[str, Any] = jwt.decode(
            credential,
            settings.KOMAND_JWT_KEY,
            algorithms=[_ALGORITHM],
            audience=_AUDIENCE,
            options={"require": _REQUIRED},
        )
    except jwt.InvalidTokenError:
        raise SessionTokenRefused from None
    user = User.objects.filter(pk=claims["sub"], is_active=True).first()
    if user is None or not hmac.compare_digest(_stamp(user), claims["cred"]) or not _still_holds(str(claims["of"])):
        raise SessionTokenRefused
    kind, _, _ = str(claims["of"]).partition(":")
    return Principal(user, "api_key" if kind == "key" else "jwt", frozenset(claims["scopes"]))


def _still_holds(of: str) -> bool:
    kind, _, name = of.partition(":")
    if kind == "key":
        return api_keys.is_valid_key(UUID(name))
    return not RefreshToken.objects.filter(family=UUID(name), revoked_at__isnull=False).exists()


def _peek(credential: str) -> dict[str, Any]:
    try:
        claims: dict[str, Any] = jwt.decode(credential, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return {}
    return claims


def _stamp(user: User) -> str:
    """Changes with the password, tells nothing about it."""
    return user.get_session_auth_hash()[:16]
