"""The notifications socket, `/v1/ws`: tells a person's client what concerns them beyond one thread.

Messages are JSON. A client subscribes to the tenant's channel or to its user's own.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from audit_app.kernel.ids import new_id
from sessions_app.conversation import announcing
from sessions_app.identity import limits
from sessions_app.identity.authenticate import authenticate, request_from_scope
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.surfaces.threads.admission import token_of
from sessions_app.surfaces.threads.foreign_ids import TENANT, user_uuid

UNAUTHORIZED, UNAVAILABLE = 4401, 4503
CHECK_SECONDS = 30.0
_LONGEST_MESSAGE = 4_096


class Notifications(AsyncWebsocketConsumer):
    _checking: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        await self.accept()  # first in any case: who is refused learns why
        try:
            self._user_id = (await in_db(self._admit)).user.pk
        except (AppError, UnicodeDecodeError):
            await self.close(UNAUTHORIZED)
            return
        user = str(user_uuid(self._user_id))
        self._mine = f"ks:{TENANT}:users:{user}"
        self._channels = {f"ks:{TENANT}:notifications": False, self._mine: False}
        try:
            await self.channel_layer.group_add(announcing.group_of(self._user_id), self.channel_name)
        except Exception:  # the layer's server may fail in many ways
            await self.close(UNAVAILABLE)
            return
        self._checking = asyncio.create_task(self._keep_checking())
        ids = {"connection_id": str(new_id()), "user_id": user, "tenant_id": str(TENANT)}
        await self._tell("connection_established", **ids)

    async def disconnect(self, code: int) -> None:
        if self._checking is None:
            return
        self._checking.cancel()
        with suppress(Exception):
            await self.channel_layer.group_discard(announcing.group_of(self._user_id), self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        request = _read(text_data)
        action, channel = request.get("action"), request.get("channel")
        if action not in ("subscribe", "unsubscribe") or not isinstance(channel, str):
            message = 'Send {"action": "subscribe" or "unsubscribe", "channel": …} as JSON.'
            await self._tell("error", code="bad_request", message=message)
        elif channel not in self._channels:
            await self._tell("error", code="forbidden", message="This channel is not yours.", channel=channel[:200])
        else:
            self._channels[channel] = action == "subscribe"
            await self._tell(f"{action}d", channel=channel)

    async def announce_title(self, event: dict[str, Any]) -> None:
        """From the channel layer."""
        if self._channels[self._mine]:
            told = {"thread_id": event["session_id"], "title": event["title"]}
            await self._send({"type": "notification", "event": "THREAD_TITLE_CHANGED", "channel": self._mine, **told})

    def _admit(self) -> Principal:
        request = request_from_scope(self.scope)
        self._came_by_ticket = "ticket" in request.GET
        if "HTTP_AUTHORIZATION" not in request.META and (token := token_of(request)):
            request.META["HTTP_AUTHORIZATION"] = f"Bearer {token}"
        principal = authenticate(request, from_query=True)
        if principal is None:
            raise Unauthenticated
        limits.take(limits.api_limit(), principal.actor)
        return principal

    async def _keep_checking(self) -> None:
        """End the connection of who may not be told any longer: logged out, key revoked. A ticket is good for one
        look, and for its connection."""
        while not self._came_by_ticket:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await in_db(self._admit)
            except AppError:
                await self.close(UNAUTHORIZED)
                return

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
