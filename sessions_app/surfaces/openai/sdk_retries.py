"""Runs whose request the server cut because it ended: kept for a moment for the client that asks again by itself.

The SDKs of this protocol repeat a request that failed, twice by default, without an `Idempotency-Key`: only
`x-stainless-retry-count` tells (openai 3.52, `_base_client.py`). A repetition by the same person with the same body
takes up a run that was cut, and each of those is taken up once: equal questions asked side by side keep an answer each.
Synchronous. While Valkey is away a repetition is a new question.
"""

import hashlib
import logging
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from redis.exceptions import RedisError

from audit_app.kernel import valkey

logger = logging.getLogger(__name__)

RETRY_COUNT = "x-stainless-retry-count"
# The SDKs wait 8 s at most before they ask again; a server may take longer to come back.
_KEPT_SECONDS = 120


def digest_of(user: User, path: str, body: bytes) -> str:
    """Tells a request from others."""
    return hashlib.sha256(f"{user.pk} {path} ".encode() + body).hexdigest()


def note_cut(digest: str, run_id: UUID) -> None:
    """The client of that request has not got the answer of this run."""
    if valkey.breaker.is_open:
        return
    try:
        with valkey.breaker.watch(), valkey.sync_client().pipeline() as pipe:
            pipe.rpush(_key(digest), str(run_id))
            pipe.expire(_key(digest), _KEPT_SECONDS)
            pipe.execute()
    except RedisError as error:
        logger.warning("it was not noted that the request of run %s was cut: %s", run_id, error)


def take_up(digest: str) -> UUID | None:
    """A run that this request began before, if there is one."""
    if valkey.breaker.is_open:
        return None
    try:
        with valkey.breaker.watch():
            found = valkey.sync_client().lpop(_key(digest))
    except RedisError as error:
        logger.warning("nobody knows whether a repeated request has begun a run: %s", error)
        return None
    return UUID(found.decode()) if isinstance(found, bytes) else None


def _key(digest: str) -> str:
    return f"{settings.KOMAND_REDIS_PREFIX}cut:{digest}"
