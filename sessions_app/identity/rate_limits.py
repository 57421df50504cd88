"""Rate limits: fixed windows counted in Valkey. While Valkey is unavailable, every request is allowed."""

import logging
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from audit_app.kernel.circuit_breaker import Breaker
from audit_app.kernel.errors import RateLimited

logger = logging.getLogger(__name__)

_breaker = Breaker(slow_seconds=0)

TOO_FAST = "too_fast"


class WritesTooFast(RateLimited):
    """A sender at a channel writes faster than the installation answers one sender."""

    code = TOO_FAST


@dataclass(frozen=True)
class Limit:
    """A rate limit. permits: requests in each window, 0 for no limit; a window opens with the first request."""

    name: str
    permits: int
    window_seconds: int


def api_limit() -> Limit:
    return Limit("api", settings.KOMAND_API_LIMIT, settings.KOMAND_API_WINDOW_SECONDS)


def chat_limit() -> Limit:
    """Return the limit for messages to agents, by user."""
    return Limit("chat", settings.KOMAND_CHAT_LIMIT, settings.KOMAND_CHAT_WINDOW_SECONDS)


def login_limit() -> Limit:
    """Return the limit for logins and for invalid credentials, by address. The lockout of accounts is separate."""
    return Limit("login", settings.KOMAND_LOGIN_LIMIT, settings.KOMAND_LOGIN_WINDOW_SECONDS)


def take(limit: Limit, party: str) -> None:
    """Count one request of a client (`user:7`, `address:10.0.0.1`). Synchronous, one round trip.

    Raises RateLimited once the permits of the window are used up.
    """
    if limit.permits == 0 or _breaker.is_open or valkey.breaker.is_open:
        return
    try:
        with _breaker.watch(), valkey.breaker.watch():
            used, seconds_left = _use(f"{settings.KOMAND_REDIS_PREFIX}limit:{limit.name}:{party}", limit.window_seconds)
    except RedisError as error:
        logger.warning("rate limits are not enforced for some seconds: %s", error)
        return
    if used > limit.permits:
        raise RateLimited(
            f"Too many requests: {limit.permits} are allowed in {limit.window_seconds} seconds. Try again later.",
            retry_after_seconds=max(1, int(seconds_left)),
        )


def check_pace(account: UUID, sender_id: str) -> None:
    """Count one message of a sender at the account of a channel. Raises WritesTooFast."""
    limit = Limit("sender", settings.KOMAND_SENDER_LIMIT, settings.KOMAND_SENDER_WINDOW_SECONDS)
    try:
        take(limit, f"{account}:{sender_id}")
    except RateLimited as error:
        raise WritesTooFast(
            f"You are writing too fast: I answer {limit.permits} messages in {limit.window_seconds} seconds. "
            "I have not read the last ones; send them again in a moment.",
            retry_after_seconds=error.retry_after_seconds,
        ) from None


def _use(key: str, window_seconds: int) -> tuple[int, int]:
    """Count a request. Return the number of those in the window, and the seconds until it ends."""
    with valkey.sync_client().pipeline(transaction=True) as pipe:
        pipe.incr(key)
        pipe.expire(key, window_seconds, nx=True)
        pipe.ttl(key)
        used, _, seconds_left = pipe.execute()
    return used, seconds_left
