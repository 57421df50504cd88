"""Stream tickets: stand-ins for a credential, for clients that can put it into an address only.

Addresses end up in logs of proxies and browsers, so a ticket is good for a minute and for one connection.
"""

import hmac
import logging
import secrets
from datetime import timedelta
from typing import Any, Literal, cast

import jwt
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from sessions_app.identity.principal import Principal, Unauthenticated

logger = logging.getLogger(__name__)

SECONDS = 60
MARK = "st_"
_ALGORITHM = "HS256"
_AUDIENCE = "komand:stream"
_REQUIRED = ["sub", "exp", "aud", "jti", "cred", "kind", "scopes"]


class TicketRefused(Unauthenticated):
    """This ticket is not valid (any more). Ask for a new one."""

    code = "ticket_refused"


def issue_ticket(principal: Principal) -> str:
    """A ticket that may do what the principal may."""
    claims = {
        "sub": str(principal.user.pk),
        "kind": principal.kind,
        "scopes": sorted(principal.scopes),
        "cred": _stamp(principal.user),
        "jti": secrets.token_hex(16),
        "aud": _AUDIENCE,
        "exp": timezone.now() + timedelta(seconds=SECONDS),
    }
    return MARK + jwt.encode(claims, settings.KOMAND_JWT_KEY, algorithm=_ALGORITHM)


def redeem_ticket(ticket: str) -> Principal:
    """The principal of a ticket that nobody has used yet. Raises TicketRefused. Synchronous.

    While Valkey is away, a ticket may be used again within its minute.
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
    user = User.objects.filter(pk=claims["sub"], is_active=True).first()
    if user is None or not hmac.compare_digest(_stamp(user), claims["cred"]) or not _is_first_use(claims["jti"]):
        raise TicketRefused
    kind = cast(Literal["jwt", "api_key", "session"], claims["kind"])
    # Nobody else's page can know a ticket: what rides on it needs no further proof.
    return Principal(user, "jwt" if kind == "session" else kind, frozenset(claims["scopes"]))


def _stamp(user: User) -> str:
    """Changes with the password, tells nothing about it."""
    return user.get_session_auth_hash()[:16]


def _is_first_use(ticket_id: str) -> bool:
    key = f"{settings.KOMAND_REDIS_PREFIX}ticket:{ticket_id}"
    try:
        return bool(valkey.sync_client().set(key, "1", nx=True, ex=SECONDS * 2))
    except RedisError as error:
        logger.warning("a ticket's use was not noted: %s", error)
        return True
