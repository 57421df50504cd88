"""The WebSocket `/v1/ws`: notifications for a user that belong to no single thread.

Messages are JSON. A client subscribes to the channel of the tenant or to that of its user.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, RateLimited
from audit_app.kernel.ids import new_id
from sessions_app.conversation import notifications
from sessions_app.identity import rate_limits
from sessions_app.identity.authentication import authenticate, request_from_scope
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.surfaces.base.reauthentication import until_refused
from sessions_app.surfaces.threads.admission import token_of
from sessions_app.surfaces.threads.foreign_ids import TENANT, user_uuid

logger = logging.getLogger(__name__)

# Close codes of the protocol: clients reconnect after 4503, and not after 4401.
UNAUTHORIZED, UNAVAILABLE = 4401, 4503
_JOIN_SECONDS = 10.0
_LONGEST_MESSAGE = 4_096


class Notifications(AsyncWebsocketConsumer):
    principal: Principal
    session_id = None
    is_endless = True
    _listener: notifications.Listener | None = None
    _tasks: tuple[asyncio.Task[None], ...] = ()
    _mine = ""
    _channels: Mapping[str, bool] = {}  # the client's channels, and whether it has subscribed

    async def connect(self) -> None:
        await self.accept()  # a close code can be sent only after the handshake
        try:
            self.principal = await in_db(_admit, request_from_scope(self.scope))
            await in_db(rate_limits.take, rate_limits.api_limit(), self.principal.actor)
        except RateLimited:
            await self.close(UNAVAILABLE)
            return
        except (AppError, UnicodeDecodeError):
            await self.close(UNAUTHORIZED)
            return
        user = str(user_uuid(self.principal.user.pk))
        self._mine = f"ks:{TENANT}:users:{user}"
        self._channels = {f"ks:{TENANT}:notifications": False, self._mine: False}
        self._listener = notifications.Listener(self.principal.user.pk)
        try:
            async with asyncio.timeout(_JOIN_SECONDS):
                await self._listener.join()
        except Exception as error:  # the channel layer raises errors of several libraries
            logger.warning("cannot subscribe to notifications: %s", error)
            await self.close(UNAVAILABLE)
            return
        work = (self._close_when_refused(), self._forward(self._listener))
        self._tasks = tuple(asyncio.create_task(part) for part in work)
        ids = {"connection_id": str(new_id()), "user_id": user, "tenant_id": str(TENANT)}
        await self._send_system("connection_established", **ids)

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            with suppress(Exception):  # as above
                await self._listener.leave()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        request = _read(text_data)
        action, channel = request.get("action"), request.get("channel")
        if action not in ("subscribe", "unsubscribe") or not isinstance(channel, str):
            message = 'Send {"action": "subscribe" or "unsubscribe", "channel": …} as JSON.'
            await self._send_system("error", code="bad_request", message=message)
        elif channel not in self._channels:
            message = "You cannot subscribe to this channel."
            await self._send_system("error", code="forbidden", message=message, channel=channel[:200])
        else:
            self._channels = {**self._channels, channel: action == "subscribe"}
            await self._send_system(f"{action}d", channel=channel)

    async def _forward(self, listener: notifications.Listener) -> None:
        async for event in listener.events():
            if event["type"] == notifications.TITLE_CHANGED and self._channels[self._mine]:
                changed = {"event": "THREAD_TITLE_CHANGED", "thread_id": event["session_id"], "title": event["title"]}
                await self._send({"type": "notification", "channel": self._mine, **changed})

    async def _close_when_refused(self) -> None:
        await until_refused(self)
        await self.close(UNAUTHORIZED)

    async def _send_system(self, event: str, **fields: Any) -> None:
        await self._send({"type": "system", "event": event, **fields})

    async def _send(self, message: dict[str, Any]) -> None:
        with suppress(Exception):  # each ASGI server raises its own for a connection that has closed
            await self.send(text_data=json.dumps(message, ensure_ascii=False))


def _admit(request: HttpRequest) -> Principal:
    if "HTTP_AUTHORIZATION" not in request.META and (token := token_of(request)):
        request.META["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    principal = authenticate(request, from_query="ticket")
    if principal is None:
        raise Unauthenticated
    return principal


def _read(text: str | None) -> dict[str, Any]:
    """Return the JSON object of a message, or an empty one."""
    try:
        value = json.loads(text or "") if len(text or "") <= _LONGEST_MESSAGE else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
