"""Remembers for a while which messages were told to their end, so that none is told again to who waits for the next."""

import logging
from uuid import UUID

from django.conf import settings
from redis.exceptions import RedisError

from audit_app.kernel import valkey

logger = logging.getLogger(__name__)

_KEPT_SECONDS = 600


def mark_delivered(run_id: UUID) -> None:
    """Somebody has the message. Synchronous; never raises for a server that is away."""
    try:
        valkey.sync_client().set(_key(run_id), "1", ex=_KEPT_SECONDS)
    except RedisError as error:
        logger.warning("it was not noted that message %s was told: %s", run_id, error)


def is_delivered(run_id: UUID) -> bool:
    """Also when nobody can tell."""
    try:
        return bool(valkey.sync_client().exists(_key(run_id)))
    except RedisError as error:
        logger.warning("nobody knows whether message %s was told: %s", run_id, error)
        return True


def _key(run_id: UUID) -> str:
    return f"{settings.KOMAND_REDIS_PREFIX}told:{run_id}"
