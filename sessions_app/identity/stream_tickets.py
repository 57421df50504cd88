"""Stream tickets: replacements for a credential, for clients that can only put one into a URL.

URLs are logged by proxies and browsers, so a ticket is valid for one minute and one connection.
"""

import logging
import secrets
from datetime import timedelta
from typing import Any, Literal, cast

import jwt
from django.conf import settings
from django.utils import timezone
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from sessions_app.identity import access_tokens
from sessions_app.identity.principal import Principal, Unauthenticated

logger = logging.getLogger(__name__)

SECONDS = 60
MARK = "st_"
_ALGORITHM = "HS256"
_AUDIENCE = "komand:stream"
_REQUIRED = ["sub", "exp", "aud", "jti", "cred", "kind", "scopes"]


class TicketRefused(Unauthenticated):
    """The ticket is invalid, expired or used. Request a new one."""

    code = "ticket_refused"


def issue_ticket(principal: Principal) -> str:
    """Return a ticket with the rights of the principal."""
    claims = {
        "sub": str(principal.user.pk),
        "kind": principal.kind,
        "scopes": sorted(principal.scopes),
        "cred": access_tokens.credential_stamp(principal.user),
        "jti": secrets.token_hex(16),
        "aud": _AUDIENCE,
        "exp": timezone.now() + timedelta(seconds=SECONDS),
    }
    return MARK + jwt.encode(claims, settings.KOMAND_JWT_KEY, algorithm=_ALGORITHM)


def redeem_ticket(ticket: str) -> Principal:
    """Use up a ticket and return its principal. Raises TicketRefused. Synchronous.

    While Valkey is unavailable, a ticket can be used several times within its minute.
    """
    try:
        claims: dict[str, Any] = jwt.decode(
            ticket.removeprefix(MARK),
            settings.KOMAND_JWT_KEY,
            algorithms=[_ALGORITHM],
            audience=_AUDIENCE,
            options={"require": _REQUIRED},
        )
    except jwt.InvalidTokenError:
        raise TicketRefused from None
    user = access_tokens.find_user(claims)
    if user is None or not _is_first_use(claims["jti"]):
        raise TicketRefused
    kind = cast(Literal["jwt", "api_key", "session"], claims["kind"])
    # A foreign page cannot know a ticket: no CSRF or Origin check is needed.
    return Principal(user, "jwt" if kind == "session" else kind, frozenset(claims["scopes"]))


def _is_first_use(ticket_id: str) -> bool:
    key = f"{settings.KOMAND_REDIS_PREFIX}ticket:{ticket_id}"
    try:
        return bool(valkey.sync_client().set(key, "1", nx=True, ex=SECONDS * 2))
    except RedisError as error:
        logger.warning("cannot mark a ticket as used: %s", error)
        return True
