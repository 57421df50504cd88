"""Runs whose request was cut and that continue, kept shortly for the client's automatic retry.

The SDKs of this protocol retry a failed request, twice by default, without an `Idempotency-Key`; only the header
`x-stainless-retry-count` marks the retry (openai 3.52, `_base_client.py`). A retry by the same user with the same body
resumes a run that was cut. Each such run is resumed once, so that concurrent equal requests keep an answer each.
Synchronous. While Valkey is unavailable, a retry counts as a new request.
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
# The SDKs wait at most 8 s before they retry; a server may take longer to restart.
_KEPT_SECONDS = 120


def digest_of(user: User, path: str, body: bytes) -> str:
    """Return the digest by which a retry of the request is recognised."""
    return hashlib.sha256(f"{user.pk} {path} ".encode() + body).hexdigest()


def store_cut(digest: str, run_id: UUID) -> None:
    """Store that the client of the request has not received the answer of this run. Never raises RedisError."""
    if valkey.breaker.is_open:
        return
    try:
        with valkey.breaker.watch(), valkey.sync_client().pipeline() as pipe:
            pipe.rpush(_key(digest), str(run_id))
            pipe.expire(_key(digest), _KEPT_SECONDS)
            pipe.execute()
    except RedisError as error:
        logger.warning("cannot store that the request of run %s was cut; a retry starts a new run: %s", run_id, error)


def pop_cut(digest: str) -> UUID | None:
    """Remove and return the id of a run that this request started before, if there is one. Never raises RedisError."""
    if valkey.breaker.is_open:
        return None
    try:
        with valkey.breaker.watch():
            found = valkey.sync_client().lpop(_key(digest))
    except RedisError as error:
        logger.warning("cannot check whether a retried request has a run already; it starts a new one: %s", error)
        return None
    return UUID(found.decode()) if isinstance(found, bytes) else None


def _key(digest: str) -> str:
    return f"{settings.KOMAND_REDIS_PREFIX}cut:{digest}"
