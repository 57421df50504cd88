"""Tells a person's open connections what concerns them beyond one session. Nothing is kept: who is away, reads it."""

import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from audit_app.kernel import valkey
from audit_app.kernel.errors import Unavailable

logger = logging.getLogger(__name__)

TITLE_CHANGED = "announce.title"
LAYER = "lists"  # of settings.CHANNEL_LAYERS


class Listener:
    """One connection of a person. `join` it, read its `events`, and `leave` in the end."""

    def __init__(self, user_id: int) -> None:
        self._group = _group_of(user_id)
        self._layer: Any = get_channel_layer(LAYER)  # type: ignore[no-untyped-call]
        self._channel = ""

    async def join(self) -> None:
        """From now on nothing is missed. Raises Unavailable, or what the layer's server fails with."""
        if self._layer is None:
            raise Unavailable("Nothing can be announced here.")
        self._channel = await self._layer.new_channel()
        await self._layer.group_add(self._group, self._channel)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """For ever: `type` TITLE_CHANGED with `session_id` and `title`. To be cancelled."""
        while True:
            yield await self._layer.receive(self._channel)

    async def leave(self) -> None:
        """Raises what the layer's server fails with."""
        if self._channel:
            await self._layer.group_discard(self._group, self._channel)


def _group_of(user_id: int) -> str:
    return f"user.{user_id}"


def announce_title(owner_id: int | None, session_id: UUID, title: str) -> None:
    """After commit, tell the owner that a session has another title. Synchronous; never raises."""
    if owner_id is not None:
        event = {"type": TITLE_CHANGED, "session_id": str(session_id), "title": title}
        transaction.on_commit(partial(_send, _group_of(owner_id), event), robust=True)


def _send(group: str, event: dict[str, str]) -> None:
    layer = get_channel_layer(LAYER)  # type: ignore[no-untyped-call]
    if layer is None or valkey.breaker.is_open:  # workers have no layer: nobody renames anything there
        return
    try:
        async_to_sync(layer.group_send)(group, event)
    except Exception as error:  # the layer's server may fail in many ways
        logger.warning("%s was not told: %s", group, error)
