"""Tells a person's open connections what concerns them beyond one session. Nothing is kept: who is away, reads it."""

import logging
from functools import partial
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from audit_app.kernel import valkey

logger = logging.getLogger(__name__)

TITLE_CHANGED = "announce.title"


def group_of(user_id: int) -> str:
    """The group of the channel layer that a person's connections join."""
    return f"user.{user_id}"


def announce_title(owner_id: int | None, session_id: UUID, title: str) -> None:
    """After commit, tell the owner that a session has another title. Synchronous; never raises."""
    if owner_id is not None:
        event = {"type": TITLE_CHANGED, "session_id": str(session_id), "title": title}
        transaction.on_commit(partial(_send, group_of(owner_id), event), robust=True)


def _send(group: str, event: dict[str, str]) -> None:
    layer = get_channel_layer()  # type: ignore[no-untyped-call]
    if layer is None or valkey.breaker.is_open:  # workers have no layer: nobody renames anything there
        return
    try:
        async_to_sync(layer.group_send)(group, event)
    except Exception as error:  # the layer's server may fail in many ways
        logger.warning("%s was not told: %s", group, error)
