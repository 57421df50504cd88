"""The only place that opens connections to Redis/Valkey for our own use (Celery and Channels have theirs)."""

from functools import cache

import redis
import redis.asyncio
from django.conf import settings

from audit_app.kernel.circuit_breaker import Breaker

# A server that hangs holds up whoever asks it: on SQLite all database work of a process, which has one thread.
_ANSWER_SECONDS = 2

# For what may be left out while the server hangs.
breaker = Breaker()


@cache
def sync_client() -> "redis.Redis":
    """One client per process for short commands; safe across threads, not across fork before first use."""
    pool = redis.BlockingConnectionPool.from_url(
        settings.KOMAND_REDIS_URL,
        max_connections=8,
        timeout=5,
        socket_timeout=_ANSWER_SECONDS,
        socket_connect_timeout=2,
    )
    return redis.Redis(connection_pool=pool)


def async_client(*, max_connections: int = 16) -> "redis.asyncio.Redis":
    """A new client for one event loop. `socket_timeout=None`: blocking reads wait as long as they asked to."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.KOMAND_REDIS_URL,
        max_connections=max_connections,
        timeout=10,
        socket_timeout=None,
        socket_connect_timeout=2,
    )
    return redis.asyncio.Redis.from_pool(pool)
