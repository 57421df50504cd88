"""The chat: a WebSocket that shows one session, and takes messages and answers to requests for approval.

A message during a run joins it. A client that disconnects stops nothing.
"""

import asyncio
import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest

from agents_app.events import RUN_ENDS
from audit_app.kernel import context
from audit_app.kernel.database import in_db
from sessions_app.identity import rate_limits
from sessions_app.identity.authentication import request_from_scope
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.identity.request_admission import admit_bearer
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.base.reauthentication import until_refused
from sessions_app.surfaces.zeroclaw import commands, queries
from sessions_app.surfaces.zeroclaw.chat_frames import ChatFrames, Frame
from sessions_app.surfaces.zeroclaw.commands import Chat
from sessions_app.surfaces.zeroclaw.requests import read_frame

logger = logging.getLogger(__name__)

PROTOCOL = "zeroclaw.v1"
REFUSED, UNUSABLE, BROKEN = 4401, 4400, 1011  # close codes
_BEARER = "bearer."  # begins the sub-protocol that brings a token, for browsers


class ChatSocket(AsyncWebsocketConsumer):
    """WS /ws/chat?agent=…&session_id=…&name=…"""

    principal: Principal
    session_id: UUID | None = None
    is_endless = True
    _chat: Chat | None = None
    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        offered: list[str] = self.scope.get("subprotocols") or []
        protocol = PROTOCOL if PROTOCOL in offered else None
        try:
            request = request_from_scope(self.scope)
            self.principal = await in_db(_admit, request, offered)
            context.actor.set(self.principal.actor)
            given = request.GET
            names = given.get("agent", ""), given.get("session_id", ""), given.get("name", "")
            chat = self._chat = await in_db(commands.open_chat, self.principal, *names)
        except (Unauthenticated, UnicodeDecodeError):
            await self.close()  # before `accept`: the client receives 403
            return
        except Exception as error:
            await self.accept(protocol)  # only then is the reason seen
            await self._send_error(error)
            await self.close(UNUSABLE)
            return
        self.session_id = chat.session.id
        await self.accept(protocol)
        await self._send([_started(chat)])
        self._tasks = tuple(asyncio.create_task(work) for work in (self._close_when_refused(), self._follow(chat)))

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._chat is None:
            return
        try:
            await self._handle(self._chat, text_data)
        except Exception as error:
            await self._send_error(error)

    async def _handle(self, chat: Chat, text: str | None) -> None:
        frame = read_frame(text)
        if frame.type == "message":
            await store_message(commands.send, self.principal, chat.session, frame.content)
        elif frame.type == "approval_response":
            await in_db(commands.decide, self.principal, chat.session, frame.request_id, frame.decision)
        else:
            await self._send([{"type": "connected", "session_id": queries.client_id_of(chat.session)}])

    async def _follow(self, chat: Chat) -> None:
        """Send the frames of the session. A viewer that overflows is reopened at the client's position."""
        frames, cursor = ChatFrames(chat.decisions), chat.cursor
        try:
            while True:
                async with Viewer(chat.session.id, cursor) as viewer:
                    async for events in viewer.frames():
                        for event in events:
                            await self._send(await _frames_of(frames, event))
                        cursor = events[-1].cursor if events else cursor
                    if not viewer.overflowed:  # the server ends
                        await self.close(BROKEN)
                        return
        except Exception:
            logger.exception("cannot send events of session %s to a chat", chat.session.id)
            await self.close(BROKEN)

    async def _close_when_refused(self) -> None:
        await until_refused(self)
        await self.close(REFUSED)

    async def _send_error(self, error: Exception) -> None:
        found = http_error_of(error)
        await self._send([{"type": "error", "code": found.code, "message": found.message}])

    async def _send(self, frames: Iterable[Frame]) -> None:
        with suppress(Exception):  # each ASGI server raises its own for a connection that has closed
            for frame in frames:
                await self.send(text_data=json.dumps(frame, ensure_ascii=False))


async def _frames_of(frames: ChatFrames, event: SessionEvent) -> list[Frame]:
    seen = frames.see(event)
    if event.type in RUN_ENDS and event.run_id is not None and event.parent_run_id is None:
        seen += frames.end(event, await in_db(queries.read_answer, event.run_id))
    return seen


def _started(chat: Chat) -> dict[str, Any]:
    session = chat.session
    return {
        "type": "session_start",
        "session_id": queries.client_id_of(session),
        "resumed": chat.is_resumed,
        "message_count": session.message_count,
        "name": session.title,
        "agent_alias": session.agent.agent_id,
    }


def _admit(request: HttpRequest, offered: Iterable[str]) -> Principal:
    """Return the principal of the header, or of the sub-protocol that brings a token. Raises AppError."""
    token = next((name.removeprefix(_BEARER) for name in offered if name.startswith(_BEARER)), "")
    if token and "HTTP_AUTHORIZATION" not in request.META:
        request.META["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return admit_bearer(request, rate_limits.api_limit(), from_query="ticket")
