"""Access tokens (JWT, RFC 7519, HS256) and rotating refresh tokens of API logins.

A login is a family of refresh tokens, each used once. The second use of one means that a copy was stolen: the whole
family is revoked, and with it every access token that names the family.
"""

import hashlib
import hmac
import secrets
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import jwt
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from audit_app import services as audit
from audit_app.kernel.ids import new_id
from sessions_app.identity import logins, signed_claims
from sessions_app.identity.actor_names import display_name
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.models import Login, RefreshToken

_CLOCK_SKEW_SECONDS = 10
_PREFIX = "rt_"
_ID_LENGTH = 32


@dataclass(frozen=True)
class TokenPair:
    """access: a JWT.
    refresh: opaque, `rt_…`, good for one rotation.
    """

    access: str
    refresh: str


class TokenRefused(Unauthenticated):
    """The token is invalid, expired or revoked. Log in again."""

    code = "token_refused"


def open_login(
    user: User, *, authenticated_at: datetime | None = None, request: HttpRequest | None = None
) -> TokenPair:
    """Create a family for a user whose password was just checked. Deletes the user's expired refresh tokens.

    authenticated_at: when the user proved who they are, if that was before.
    request: request of the login, to list it.
    """
    family = new_id()
    with transaction.atomic():
        RefreshToken.objects.filter(user=user, expires_at__lt=timezone.now()).delete()
        if request is not None:
            logins.record(family, user, request)
        return _next_pair(user, family, authenticated_at or timezone.now())


def rotate(refresh_token: str) -> TokenPair:
    """Use up a refresh token and return the next pair. Raises TokenRefused.

    A token that was used before also revokes its whole login, because one of its two holders is an attacker.
    """
    row = _find(refresh_token)
    now = timezone.now()
    with transaction.atomic():
        fresh = RefreshToken.objects.filter(pk=row.pk, used_at=None, revoked_at=None, expires_at__gt=now)
        if fresh.update(used_at=now):
            Login.objects.filter(pk=row.family).update(last_seen_at=now)
            return _next_pair(row.user, row.family, row.authenticated_at)
    row.refresh_from_db()
    if row.used_at is not None and row.revoked_at is None:
        _revoke_family(row.family)
        audit.record("RefreshTokenReused", details={"family": str(row.family)}, actor=f"user:{row.user_id}")
    raise TokenRefused


def close_login(refresh_token: str) -> None:
    """Revoke the refresh and access tokens of the login. Idempotent; an invalid token is ignored."""
    with suppress(TokenRefused):
        _revoke_family(_find(refresh_token).family)


def close_login_of(access_token: str) -> None:
    """Revoke the login of an access token. Raises TokenRefused if the token is invalid."""
    _revoke_family(UUID(_claims(access_token)["sid"]))


def authenticate_token(access_token: str) -> Principal:
    """Return the principal of a valid access token.

    Raises TokenRefused if the token is expired, forged or for another audience, its login was closed, or the user was
    deactivated or has changed the password.
    """
    claims = _claims(access_token)
    user = signed_claims.find_user(claims)
    login = UUID(claims["sid"])
    if user is None or login in find_closed([login]):
        raise TokenRefused
    return Principal(
        user,
        "jwt",
        credential=f"login:{login}",
        authenticated_at=signed_claims.read_auth_time(claims),
        valid_until=signed_claims.read_expiry(claims) + timedelta(seconds=_CLOCK_SKEW_SECONDS),
        password_stamp=claims["cred"],
    )


def find_closed(logins: Collection[UUID]) -> set[UUID]:
    """Return those of the logins that were closed or revoked. One statement."""
    rows = RefreshToken.objects.filter(family__in=logins, revoked_at__isnull=False)
    return set(rows.values_list("family", flat=True).distinct())


def _claims(access_token: str) -> dict[str, Any]:
    checks = {"issuer": settings.KOMAND_JWT_ISSUER, "leeway": _CLOCK_SKEW_SECONDS}
    try:
        return signed_claims.decode(access_token, settings.KOMAND_JWT_AUDIENCE, "iat", "iss", "jti", "sid", **checks)
    except jwt.ExpiredSignatureError:
        raise TokenRefused("The token has expired. Refresh it.", code="token_expired") from None
    except jwt.InvalidTokenError:
        raise TokenRefused from None


def _next_pair(user: User, family: UUID, authenticated_at: datetime | None) -> TokenPair:
    now = timezone.now()
    secret = secrets.token_urlsafe(32)
    expires_at = now + timedelta(days=settings.KOMAND_REFRESH_DAYS)
    row = RefreshToken.objects.create(
        family=family, user=user, digest=_digest(secret, user), authenticated_at=authenticated_at, expires_at=expires_at
    )
    return TokenPair(_access_token(row, user, now), f"{_PREFIX}{row.pk.hex}{secret}")


def _access_token(row: RefreshToken, user: User, now: datetime) -> str:
    claims = {
        "email": user.email,
        "name": display_name(user),
        "sid": str(row.family),
        "iss": settings.KOMAND_JWT_ISSUER,
        "iat": now,
        **signed_claims.auth_time(row.authenticated_at),
    }
    lifetime = timedelta(minutes=settings.KOMAND_JWT_MINUTES)
    return signed_claims.encode(user, settings.KOMAND_JWT_AUDIENCE, lifetime, claims)


def _find(refresh_token: str) -> RefreshToken:
    text = refresh_token.removeprefix(_PREFIX)
    try:
        row_id = UUID(hex=text[:_ID_LENGTH])
    except ValueError:
        raise TokenRefused from None
    row = RefreshToken.objects.select_related("user").filter(pk=row_id, user__is_active=True).first()
    if row is None or not hmac.compare_digest(row.digest, _digest(text[_ID_LENGTH:], row.user)):
        raise TokenRefused
    return row


def _digest(secret: str, user: User) -> str:
    # Bound to the password: changing it ends every login.
    return hashlib.sha256(f"{secret}.{user.get_session_auth_hash()}".encode()).hexdigest()


def _revoke_family(family: UUID) -> None:
    with transaction.atomic():
        RefreshToken.objects.filter(family=family, revoked_at=None).update(revoked_at=timezone.now())
