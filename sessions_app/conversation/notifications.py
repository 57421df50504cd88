"""Notifications to a user's open connections about changes of their sessions. They are not stored."""

import logging
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from audit_app.kernel import valkey
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.errors import Unavailable

logger = logging.getLogger(__name__)

TITLE_CHANGED = "announce.title"
LAYER = "lists"  # of settings.CHANNEL_LAYERS


class Listener:
    """The subscription of one connection of a user. Call `join`, read `events`, and call `leave` at the end."""

    def __init__(self, user_id: int) -> None:
        self._group = _group_of(user_id)
        self._layer: Any = get_channel_layer(LAYER)  # type: ignore[no-untyped-call]
        self._channel = ""

    async def join(self) -> None:
        """Subscribe: later notifications are not missed. Raises Unavailable, and errors of the channel layer."""
        if self._layer is None:
            raise Unavailable("Notifications are not available.")
        self._channel = await self._layer.new_channel()
        await self._layer.group_add(self._group, self._channel)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield notifications until cancelled: `type` TITLE_CHANGED with `session_id` and `title`."""
        while True:
            yield await self._layer.receive(self._channel)

    async def leave(self) -> None:
        """Unsubscribe. Raises errors of the channel layer."""
        if self._channel:
            await self._layer.group_discard(self._group, self._channel)


def _group_of(user_id: int) -> str:
    return f"user.{user_id}"


def announce_title(owner_id: int | None, session_id: UUID, title: str) -> None:
    """Notify the owner, after commit, that the title of a session has changed. Synchronous; never raises."""
    if owner_id is not None:
        event = {"type": TITLE_CHANGED, "session_id": str(session_id), "title": title}
        after_commit(_send, _group_of(owner_id), event)


def _send(group: str, event: dict[str, str]) -> None:
    layer = get_channel_layer(LAYER)  # type: ignore[no-untyped-call]
    if layer is None or valkey.breaker.is_open:  # workers have no channel layer, and rename nothing
        return
    try:
        async_to_sync(layer.group_send)(group, event)
    except Exception as error:  # the layer's server may fail in many ways
        logger.warning("notification to %s was not sent: %s", group, error)
