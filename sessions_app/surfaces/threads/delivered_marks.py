"""Marks messages that a client received to their end, so that the next stream of a thread does not repeat them.

Marks are kept in Valkey for some minutes. Synchronous; no function raises RedisError.
"""

import logging
from uuid import UUID

from django.conf import settings
from redis.exceptions import RedisError

from audit_app.kernel import valkey

logger = logging.getLogger(__name__)

_KEPT_SECONDS = 600


def mark_delivered(run_id: UUID) -> None:
    """Mark the message of a run as received."""
    try:
        valkey.sync_client().set(_key(run_id), "1", ex=_KEPT_SECONDS)
    except RedisError as error:
        logger.warning("cannot mark message %s as delivered: %s", run_id, error)


def is_delivered(run_id: UUID) -> bool:
    """Return whether the message of a run was received; true if Valkey is unavailable."""
    try:
        return bool(valkey.sync_client().exists(_key(run_id)))
    except RedisError as error:
        logger.warning("cannot check whether message %s was delivered: %s", run_id, error)
        return True


def _key(run_id: UUID) -> str:
    return f"{settings.KOMAND_REDIS_PREFIX}told:{run_id}"
