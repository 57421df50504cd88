"""The page's WebSocket: tells one viewer what happens in one session, from a cursor on. Receives nothing.

No thread and no database connection waits here: the viewer waits on the process's follow loop.
"""

import asyncio
import json
import logging
import re
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import path

from agents_app import selectors as agents
from agents_app.types import RunStatus
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from sessions_app.access import access_session
from sessions_app.approvals import permissions
from sessions_app.identity.authentication import authenticate
from sessions_app.live_view.viewer import Viewer
from sessions_app.models import Session
from sessions_app.surfaces.chat import queries
from sessions_app.surfaces.chat.fragments import Frame, answer_frame, approval_frame, files_frame, frame_of, turn_frame
from sessions_app.surfaces.chat.live_text import LiveTexts
from sessions_app.surfaces.chat.projection import (
    Act,
    Projection,
    ShowAnswer,
    ShowApproval,
    ShowFiles,
    ShowQueue,
    ShowStatus,
    ShowTurn,
)
from sessions_app.surfaces.chat.session_files import read_files
from sessions_app.surfaces.chat.single_flight import SingleFlight
from sessions_app.surfaces.chat.turn_views import status_of
from tools_app.types import Decision

logger = logging.getLogger(__name__)

# Below 4100: come back with the cursor. From 4400 on: do not.
TOO_SLOW = 4001
FAILED = 4002
NOT_LOGGED_IN = 4401
NOT_YOURS = 4403

CHECK_SECONDS = 30.0

_texts = LiveTexts()
# What a session's viewers are told alike, and would otherwise each ask the database for at the same moment.
_answers = SingleFlight[list[Frame]](kept=100)
_turn_views = SingleFlight[list[Frame]](kept=100)
_queues = SingleFlight[list[Frame]](kept=100)
_files = SingleFlight[list[Frame]](kept=20)


class ChatSocket(AsyncWebsocketConsumer):
    """Messages are JSON: {"cursor": where to resume after it, "acts": [...]}. An empty one is a sign of life."""

    session: Session
    allowed_decisions: tuple[Decision, ...] = ()
    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        # Accepted first in any case: a browser does not learn why a handshake was refused.
        await self.accept()
        refusal = await self._check()
        if refusal:
            await self.close(refusal)
            return
        asked = parse_qs(self.scope["query_string"].decode("latin-1")).get("cursor", [""])[0]
        # From the last kept fact on: text that came since is told again from its step's start and cut by the page,
        # because Markdown blocks cannot be made from the middle of a text.
        work = (self._tell(_kept(asked)), self._keep_checking())
        self._tasks = tuple(asyncio.create_task(self._or_close(part)) for part in work)

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _check(self) -> int | None:
        """The close code for someone who may not watch (any more)."""
        try:
            session_id = UUID(str(self.scope["url_route"]["kwargs"]["session_id"]))
            self.session, self.allowed_decisions = await in_db(_gate, self.scope, session_id)
        except _NotLoggedIn:
            return NOT_LOGGED_IN
        except AppError:
            return NOT_YOURS
        return None

    async def _or_close(self, work: Coroutine[Any, Any, int]) -> None:
        """Do the work; close with the code it returns, or as failed."""
        try:
            code = await work
        except _ViewerGone:
            with suppress(Exception):  # it is closed by now, or cannot go on
                await self.close(FAILED)
            return
        except Exception:
            logger.exception("a viewer of session %s was not served", self.session.id)
            code = FAILED
        await self.close(code)

    async def _keep_checking(self) -> int:
        """Look now and then whether the viewer may still watch; the message shows the page that we are there."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                refusal = await self._check()
            except Exception as error:  # nobody can tell, as when the database is away: the viewer stays
                logger.warning("whether a viewer may go on watching could not be looked up: %r", error)
                refusal = None
            if refusal:
                return refusal
            await self._send({})

    async def _tell(self, cursor: str) -> int:
        async with Viewer(self.session.id, cursor) as viewer:
            await self._send({})  # tells the page that it is let in
            queued = await in_db(_queue_of, self.session.id)
            projection = Projection(
                _texts, [status.run_id for status in queued], may_decide=bool(self.allowed_decisions)
            )
            async for batch in viewer.frames():
                now = _kept(batch[-1].cursor)
                frames = [frame for act in projection.acts(batch) for frame in await self._frames_of(act, now)]
                await self._send({"cursor": now, "acts": frames})
        return TOO_SLOW

    async def _send(self, message: Frame) -> None:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        try:
            await self.send(text_data=text)
        except Exception as error:  # each server has its own for a connection that is closed by now
            raise _ViewerGone from error

    async def _frames_of(self, act: Act, now: str) -> list[Frame]:
        """now: the last kept fact, by which the queue stands as it does."""
        if isinstance(act, ShowTurn):
            return await _turn_views.get((act.run_id, act.message_id), partial(self._turn_view, act))
        if isinstance(act, ShowApproval):
            card = await in_db(queries.read_approval, act.approval_id, allowed_decisions=self.allowed_decisions)
            return [approval_frame(act.run_id, card)]
        if isinstance(act, ShowAnswer):
            return await _answers.get(act.run_id, partial(self._answer, act.run_id))
        if isinstance(act, ShowQueue):
            return await _queues.get((self.session.id, now), self._queue)
        if isinstance(act, ShowFiles):
            return await _files.get((self.session.id, now), self._list_of_files)
        return [frame_of(act)]

    async def _turn_view(self, act: ShowTurn) -> list[Frame]:
        """As it was when its message came: what came after is told by itself."""
        turn_view = await in_db(queries.find_new_turn_view, self.session, act.run_id)
        return [turn_frame(turn_view, act.message_id)] if turn_view else []

    async def _answer(self, run_id: UUID) -> list[Frame]:
        """A stored answer, which never changes again."""
        turn_view = await in_db(queries.find_turn_view, self.session, run_id)
        return [answer_frame(turn_view)] if turn_view and not turn_view.is_open else []

    async def _queue(self) -> list[Frame]:
        return [frame_of(status) for status in await in_db(_queue_of, self.session.id)]

    async def _list_of_files(self) -> list[Frame]:
        return [files_frame(await in_db(read_files, self.session.id))]


class _ViewerGone(Exception):
    """The connection was closed while there was something to send."""


class _NotLoggedIn(Exception):
    """Nobody is logged in on the page."""


def _gate(scope: Mapping[str, Any], session_id: UUID) -> tuple[Session, tuple[Decision, ...]]:
    """The session, and all that the viewer may say to what is asked in it."""
    try:
        principal = authenticate(scope)
    except (AppError, UnicodeDecodeError):
        principal = None
    if principal is None or principal.kind != "session":
        raise _NotLoggedIn
    session = access_session(principal.user, session_id)
    return session, permissions.allowed_decisions(principal.user, session.owner_id)


def _queue_of(session_id: UUID) -> list[ShowStatus]:
    """Where each waiting message stands now."""
    queued = [run for run in agents.list_open_runs(session_id) if run.status is RunStatus.QUEUED]
    return [ShowStatus(run.id, status_of(run, place=place)) for place, run in enumerate(queued, start=1)]


def _kept(cursor: str) -> str:
    """The part of a cursor that names the last kept fact: `<seq>`; empty for anything else."""
    found = re.match(r"[0-9]{1,18}(?=\.|$)", cursor, re.ASCII)
    return found.group() if found else ""


routes = [path("ws/chat/<uuid:session_id>", ChatSocket.as_asgi())]
