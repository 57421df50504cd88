"""Stream tickets: replacements for a credential, for clients that can only put one into a URL.

URLs are logged by proxies and browsers, so a ticket is valid for one minute and one connection.
"""

import logging
from datetime import timedelta
from typing import Any, Literal

import jwt
from django.conf import settings
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from audit_app.kernel.errors import InvalidInput
from sessions_app.identity import signed_claims
from sessions_app.identity.principal import Principal, Unauthenticated
from tools_app.secrets import vault

logger = logging.getLogger(__name__)

SECONDS = 60
MARK = "st_"
CREDENTIAL = "ticket:"  # before the credential for which the ticket was issued
_AUDIENCE = "komand:stream"


class TicketRefused(Unauthenticated):
    """The ticket is invalid, expired or used. Request a new one."""

    code = "ticket_refused"


def issue_ticket(principal: Principal) -> str:
    """Return a ticket with the rights of the principal. Raises InvalidInput (not_exchangeable) for that of a ticket."""
    if principal.credential.startswith(CREDENTIAL):
        raise InvalidInput("A ticket cannot be exchanged for another.", code="not_exchangeable")
    own = {"kind": principal.kind, "scopes": sorted(principal.scopes), "of": principal.credential}
    claims: dict[str, Any] = {**own, **signed_claims.auth_time(principal.authenticated_at)}
    if principal.session_key:  # sealed: clients can read the claims, and must not read the cookie
        claims["session"] = vault.seal(principal.session_key)
    return MARK + signed_claims.encode(principal.user, _AUDIENCE, timedelta(seconds=SECONDS), claims)


def redeem_ticket(ticket: str) -> Principal:
    """Use up a ticket and return its principal. Raises TicketRefused. Synchronous.

    While Valkey is unavailable, a ticket can be used several times within its minute.
    """
    try:
        claims = signed_claims.decode(ticket.removeprefix(MARK), _AUDIENCE, "jti", "kind", "scopes")
    except jwt.InvalidTokenError:
        raise TicketRefused from None
    user = signed_claims.find_user(claims)
    if user is None or not use_once(claims["jti"]):
        raise TicketRefused
    # A foreign page cannot know a ticket: no CSRF or Origin check is needed.
    bearer_kind: Literal["jwt", "api_key"] = "api_key" if claims["kind"] == "api_key" else "jwt"
    return Principal(
        user,
        bearer_kind,
        frozenset(claims["scopes"]),
        credential=f"{CREDENTIAL}{claims.get('of', '')}",
        authenticated_at=signed_claims.read_auth_time(claims),
        password_stamp=claims["cred"] if bearer_kind == "jwt" else "",
        session_key=vault.unseal(claims["session"]) if "session" in claims else "",
    )


def use_once(ticket_id: str) -> bool:
    """Mark a ticket as used. Return whether it was not before. Synchronous."""
    key = f"{settings.KOMAND_REDIS_PREFIX}ticket:{ticket_id}"
    try:
        return bool(valkey.sync_client().set(key, "1", nx=True, ex=SECONDS * 2))
    except RedisError as error:
        logger.warning("cannot mark a ticket as used: %s", error)
        return True
