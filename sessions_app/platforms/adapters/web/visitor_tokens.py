"""Tokens of visitors: HS256 JWTs for one conversation of one account, and the hash by which a site names its users.

Pure: the time and the secrets are arguments.
"""

import hashlib
import hmac
import secrets as random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from jwt.types import Options

from sessions_app.platforms.base import VerificationFailed

LIFETIME = timedelta(hours=24)
TICKET_LIFETIME = timedelta(seconds=30)
LEEWAY = timedelta(seconds=60)
# The ids of visitors whom no site names. A site's own ids must not begin so.
ANONYMOUS = "anon-"
_ISSUER, _ALGORITHM = "komand", "HS256"
_TOKEN, _TICKET = "webchat", "webchat-ticket"


@dataclass(frozen=True)
class Visitor:
    """A visitor in one conversation. is_native: in an app, whose requests have no Origin header."""

    id: str
    conversation_id: str
    name: str
    is_native: bool
    expires_at: datetime


def issue_token(secret: str, account_id: str, visitor: Visitor, now: datetime) -> str:
    return _issue(secret, f"{_TOKEN}:{account_id}", visitor, now, visitor.expires_at)


def issue_ticket(secret: str, account_id: str, visitor: Visitor, now: datetime) -> str:
    """Return a ticket that stands for the visitor's token in the URL of one connection."""
    return _issue(secret, f"{_TICKET}:{account_id}", visitor, now, now + TICKET_LIFETIME)


def _issue(secret: str, audience: str, visitor: Visitor, now: datetime, expires_at: datetime) -> str:
    claims: dict[str, Any] = {
        "iss": _ISSUER,
        "aud": audience,
        "sub": visitor.id,
        "sid": visitor.conversation_id,
        "name": visitor.name,
        "iat": int(now.timestamp()),
        "exp": int(expires_at.timestamp()),
        "until": int(visitor.expires_at.timestamp()),
        "jti": random.token_urlsafe(16),
        "native": visitor.is_native,
    }
    return jwt.encode(claims, secret, algorithm=_ALGORITHM)


def read_token(secret: str, account_id: str, token: str, now: datetime) -> Visitor:
    """Return the visitor of a session token. Raises VerificationFailed."""
    return _visitor(_claims(secret, f"{_TOKEN}:{account_id}", token, now, LEEWAY))


def read_ticket(secret: str, account_id: str, ticket: str, now: datetime) -> tuple[Visitor, str]:
    """Return the visitor of a ticket, and the id by which it is used once. Raises VerificationFailed."""
    claims = _claims(secret, f"{_TICKET}:{account_id}", ticket, now, timedelta())
    return _visitor(claims), str(claims["jti"])


def _claims(secret: str, audience: str, token: str, now: datetime, leeway: timedelta) -> dict[str, Any]:
    # The times are compared below, with the time at which the request arrived.
    options: Options = {
        "require": ["iss", "aud", "sub", "sid", "iat", "exp", "until", "jti"],
        "verify_exp": False,
        "verify_iat": False,
        "verify_nbf": False,
    }
    try:
        claims: dict[str, Any] = jwt.decode(
            token, secret, algorithms=[_ALGORITHM], audience=audience, issuer=_ISSUER, options=options
        )
        issued_at, expires_at = (datetime.fromtimestamp(int(claims[name]), UTC) for name in ("iat", "exp"))
    except (jwt.InvalidTokenError, ValueError, TypeError, OverflowError):
        raise VerificationFailed from None
    if now >= expires_at + leeway or issued_at > now + LEEWAY:
        raise VerificationFailed
    return claims


def _visitor(claims: dict[str, Any]) -> Visitor:
    expires_at = datetime.fromtimestamp(int(claims["until"]), UTC)
    name, is_native = str(claims.get("name") or ""), claims.get("native") is True
    return Visitor(str(claims["sub"]), str(claims["sid"]), name, is_native, expires_at)


def user_hash(secret: str, user_id: str) -> str:
    """Return the hash by which a site proves that a user id is its own."""
    return hmac.new(secret.encode(), user_id.encode(), hashlib.sha256).hexdigest()


def is_user_hash(secret: str, user_id: str, given: str) -> bool:
    """Return whether the site has made the hash for that user. An empty secret never matches."""
    expected = user_hash(secret, user_id)
    return bool(secret) and hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def new_anonymous_id() -> str:
    return ANONYMOUS + random.token_hex(16)
