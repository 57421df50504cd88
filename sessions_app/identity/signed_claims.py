"""Claims about a user, signed with the key of this installation: JWTs (RFC 7519) with HS256."""

import hmac
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

_ALGORITHM = "HS256"


def encode(user: User, audience: str, lifetime: timedelta, claims: Mapping[str, Any]) -> str:
    """Return a JWT with the claims, bound to the user's password."""
    own = {"sub": str(user.pk), "aud": audience, "cred": password_stamp(user), "jti": secrets.token_hex(16)}
    expiry = {"exp": timezone.now() + lifetime}
    return jwt.encode({**claims, **own, **expiry}, settings.KOMAND_JWT_KEY, algorithm=_ALGORITHM)


def decode(token: str, audience: str, *required: str, **checks: Any) -> dict[str, Any]:
    """Return the verified claims of a JWT. Raises jwt.InvalidTokenError.

    required: claims that it must have besides those of `encode`.
    checks: further arguments of `jwt.decode`.
    """
    checks |= {"audience": audience, "options": {"require": ["sub", "aud", "cred", "exp", *required]}}
    return jwt.decode(token, settings.KOMAND_JWT_KEY, algorithms=[_ALGORITHM], **checks)


def find_user(claims: Mapping[str, Any]) -> User | None:
    """Return the user of verified claims, None if it was deactivated or has changed the password since."""
    user = User.objects.filter(pk=claims["sub"]).first()
    return user if user and is_unchanged(user, claims["cred"]) else None


def is_unchanged(user: User, stamp: str) -> bool:
    """Return whether a user is active and has the password of the stamp."""
    return user.is_active and hmac.compare_digest(password_stamp(user), stamp)


def auth_time(authenticated_at: datetime | None) -> dict[str, int]:
    """Return the claim of the time of the login, by the name that OpenID Connect gives it; empty if it is unknown."""
    return {"auth_time": int(authenticated_at.timestamp())} if authenticated_at else {}


def read_auth_time(claims: Mapping[str, Any]) -> datetime | None:
    """Return the time of the login of verified claims; None if they have none."""
    return datetime.fromtimestamp(claims["auth_time"], UTC) if "auth_time" in claims else None


def read_expiry(claims: Mapping[str, Any]) -> datetime:
    """Return the time until which verified claims are valid."""
    return datetime.fromtimestamp(claims["exp"], UTC)


def password_stamp(user: User) -> str:
    """Return a value that changes with the password and reveals nothing about it."""
    return user.get_session_auth_hash()[:16]
