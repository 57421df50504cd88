"""A short lock in Valkey that keeps several processes from doing the same background work. It is no fence."""

from django.conf import settings
from redis.exceptions import RedisError

from audit_app.kernel import valkey


def is_held(name: str, token: str, seconds: int = 30, *, if_away: bool = False) -> bool:
    """Take or renew the lock for so many seconds and return whether this token holds it. Does not wait.

    if_away: returned while Valkey is away. By default the work waits for it.
    """
    if valkey.breaker.is_open:
        return if_away
    try:
        with valkey.breaker.watch():
            return _take_or_renew(f"{settings.KOMAND_REDIS_PREFIX}{name}", token, seconds)
    except RedisError:
        return if_away


def _take_or_renew(key: str, token: str, seconds: int) -> bool:
    client = valkey.sync_client()
    if client.set(key, token, nx=True, ex=seconds):
        return True
    if client.get(key) != token.encode():
        return False
    client.expire(key, seconds)
    return True
