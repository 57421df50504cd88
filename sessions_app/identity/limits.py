"""How often one party may ask: fixed windows counted in Valkey. While Valkey is away nobody is refused."""

import logging
import time
from dataclasses import dataclass

from django.conf import settings
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from audit_app.kernel.errors import RateLimited

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 5.0


@dataclass(frozen=True)
class Limit:
    """permits: requests in each window, 0 for no limit; the window opens with a party's first request."""

    name: str
    permits: int
    window_seconds: int


def api_limit() -> Limit:
    return Limit("api", settings.KOMAND_API_LIMIT, settings.KOMAND_API_WINDOW_SECONDS)


def chat_limit() -> Limit:
    """For messages to agents."""
    return Limit("chat", settings.KOMAND_CHAT_LIMIT, settings.KOMAND_CHAT_WINDOW_SECONDS)


def login_limit() -> Limit:
    """For logins and for wrong credentials, by address: the lockout of accounts comes on top."""
    return Limit("login", settings.KOMAND_LOGIN_LIMIT, settings.KOMAND_LOGIN_WINDOW_SECONDS)


class _Breaker:
    """Leaves Valkey alone for a while after it failed, so that its absence does not slow every request."""

    def __init__(self) -> None:
        self._closed_until = 0.0

    @property
    def is_open(self) -> bool:
        return time.monotonic() < self._closed_until

    def trip(self) -> None:
        self._closed_until = time.monotonic() + _PAUSE_SECONDS


_breaker = _Breaker()


def take(limit: Limit, party: str) -> None:
    """Count one request of the party (`user:7`, `address:10.0.0.1`).

    Raises RateLimited once the window is used up. One round trip; synchronous.
    """
    if limit.permits == 0 or _breaker.is_open:
        return
    key = f"{settings.KOMAND_REDIS_PREFIX}limit:{limit.name}:{party}"
    try:
        with valkey.sync_client().pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.expire(key, limit.window_seconds, nx=True)
            pipe.ttl(key)
            used, _, seconds_left = pipe.execute()
    except RedisError as error:
        _breaker.trip()
        logger.warning("rate limits are not counted for %g s: %s", _PAUSE_SECONDS, error)
        return
    if used > limit.permits:
        raise RateLimited(
            f"Too many requests: {limit.permits} are allowed in {limit.window_seconds} seconds.",
            retry_after_seconds=max(1, int(seconds_left)),
        )
