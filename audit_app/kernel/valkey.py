"""Clients of Redis/Valkey. No other module opens connections to it (Celery and Channels have their own)."""

from functools import cache

import redis
import redis.asyncio
from django.conf import settings

from audit_app.kernel.circuit_breaker import Breaker

# A server that hangs delays its callers: on SQLite all database work of a process, which has one thread.
_ANSWER_SECONDS = 2

# For commands that may be skipped while the server hangs.
breaker = Breaker()


@cache
def sync_client() -> "redis.Redis":
    """Return the client of this process for short commands. Safe across threads."""
    pool = redis.BlockingConnectionPool.from_url(
        settings.KOMAND_REDIS_URL,
        max_connections=8,
        timeout=5,
        socket_timeout=_ANSWER_SECONDS,
        socket_connect_timeout=2,
    )
    return redis.Redis(connection_pool=pool)


def async_client(*, max_connections: int = 16) -> "redis.asyncio.Redis":
    """Return a new client for one event loop. It has no socket time-out, so that blocking reads keep their own."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.KOMAND_REDIS_URL,
        max_connections=max_connections,
        timeout=10,
        socket_timeout=None,
        socket_connect_timeout=2,
    )
    return redis.asyncio.Redis.from_pool(pool)
