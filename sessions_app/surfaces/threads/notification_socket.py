"""The notifications socket, `/v1/ws`: tells a person's client what concerns them beyond one thread.

Messages are JSON. A client subscribes to the tenant's channel or to its user's own.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

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

# Clients come back after 4503, and not after 4401.
UNAUTHORIZED, UNAVAILABLE = 4401, 4503
_JOIN_SECONDS = 10.0
_LONGEST_MESSAGE = 4_096


class Notifications(AsyncWebsocketConsumer):
    _listener: notifications.Listener | None = None
    _tasks: tuple[asyncio.Task[None], ...] = ()
    _mine = ""
    _channels: Mapping[str, bool] = {}  # by name, whether it is subscribed to

    async def connect(self) -> None:
        await self.accept()  # first in any case: who is refused learns why
        try:
            principal = await in_db(self._admit)
            await in_db(rate_limits.take, rate_limits.api_limit(), principal.actor)
        except RateLimited:
            await self.close(UNAVAILABLE)
            return
        except (AppError, UnicodeDecodeError):
            await self.close(UNAUTHORIZED)
            return
        user = str(user_uuid(principal.user.pk))
        self._mine = f"ks:{TENANT}:users:{user}"
        self._channels = {f"ks:{TENANT}:notifications": False, self._mine: False}
        self._listener = notifications.Listener(principal.user.pk)
        try:
            async with asyncio.timeout(_JOIN_SECONDS):
                await self._listener.join()
        except Exception as error:  # the layer's server may fail in many ways
            logger.warning("nobody listens to announcements: %s", error)
            await self.close(UNAVAILABLE)
            return
        self._tasks = (
            asyncio.create_task(self._keep_checking()),
            asyncio.create_task(self._keep_telling(self._listener)),
        )
        ids = {"connection_id": str(new_id()), "user_id": user, "tenant_id": str(TENANT)}
        await self._tell("connection_established", **ids)

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
            await self._tell("error", code="bad_request", message=message)
        elif channel not in self._channels:
            await self._tell("error", code="forbidden", message="This channel is not yours.", channel=channel[:200])
        else:
            self._channels = {**self._channels, channel: action == "subscribe"}
            await self._tell(f"{action}d", channel=channel)

    async def _keep_telling(self, listener: notifications.Listener) -> None:
        async for event in listener.events():
            if event["type"] == notifications.TITLE_CHANGED and self._channels[self._mine]:
                told = {"event": "THREAD_TITLE_CHANGED", "thread_id": event["session_id"], "title": event["title"]}
                await self._send({"type": "notification", "channel": self._mine, **told})

    def _admit(self) -> Principal:
        request = request_from_scope(self.scope)
        self._came_by_ticket = "ticket" in request.GET
        if "HTTP_AUTHORIZATION" not in request.META and (token := token_of(request)):
            request.META["HTTP_AUTHORIZATION"] = f"Bearer {token}"
        principal = authenticate(request, from_query=True)
        if principal is None:
            raise Unauthenticated
        return principal

    async def _keep_checking(self) -> None:
        """End the connection of who may not be told any longer: logged out, key revoked. A ticket is good for one
        look, and for its connection."""
        if not self._came_by_ticket:
            await until_refused(self._admit)
            await self.close(UNAUTHORIZED)

    async def _tell(self, event: str, **fields: Any) -> None:
        await self._send({"type": "system", "event": event, **fields})

    async def _send(self, message: dict[str, Any]) -> None:
        with suppress(Exception):  # each server has its own for a connection that is closed by now
            await self.send(text_data=json.dumps(message, ensure_ascii=False))


def _read(text: str | None) -> dict[str, Any]:
    """Nothing for what is no JSON object."""
    try:
        value = json.loads(text or "") if len(text or "") <= _LONGEST_MESSAGE else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
