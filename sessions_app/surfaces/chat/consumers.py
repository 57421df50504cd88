"""The WebSocket of the page: sends the updates of one session to one viewer, from a cursor on. Receives nothing.

A waiting viewer holds no thread and no database connection: it waits on the follow loop of the process.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Self
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
from sessions_app.identity.principal import Principal, Unauthenticated
from sessions_app.live_view.cursor import Children, SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.models import Feedback, Session
from sessions_app.surfaces.base.live_text import LiveTexts
from sessions_app.surfaces.base.reauthentication import until_refused
from sessions_app.surfaces.chat import projection, queries, workstream_queries
from sessions_app.surfaces.chat.fragments import (
    Frame,
    answer_frame,
    approval_frame,
    branch_frame,
    files_frame,
    frame_of,
    older_frame,
    rating_frame,
    turn_frame,
    workstream_frame,
)
from sessions_app.surfaces.chat.page_updates import (
    PageUpdate,
    ShowAnswer,
    ShowApproval,
    ShowBranch,
    ShowFiles,
    ShowQueue,
    ShowStatus,
    ShowTurn,
    ShowWorkstream,
)
from sessions_app.surfaces.chat.queries import TurnPage
from sessions_app.surfaces.chat.render_thread import RenderThread
from sessions_app.surfaces.chat.session_files import read_files
from sessions_app.surfaces.chat.single_flight import SingleFlight
from sessions_app.surfaces.chat.turn_views import status_of
from tools_app.types import Decision

logger = logging.getLogger(__name__)

# Close codes (RFC 6455, section 7.4.2). Below 4100 the page reconnects with its cursor, from 4400 on it does not.
TOO_SLOW, FAILED, NOT_LOGGED_IN, NOT_YOURS = 4001, 4002, 4401, 4403

HEARTBEAT_SECONDS = 30.0

_texts = LiveTexts()
_rendering = RenderThread()
# Frames that are the same for all viewers of a session, each of whom would read them from the database.
_answers = SingleFlight[list[Frame]](kept=100)
_turn_views = SingleFlight[list[Frame]](kept=100)
_queues = SingleFlight[list[Frame]](kept=100)
_workstreams = SingleFlight[list[Frame]](kept=200)
_files = SingleFlight[list[Frame]](kept=20)


class PageFrames:
    """The frames of one session for one viewer, also of other surfaces, see `surfaces/base/page_view.py`.

    find_principal: returns the viewer as known now: rights may be taken away while it is connected.
    """

    def __init__(self, find_principal: Callable[[], Principal], session: Session) -> None:
        """Read the queue. Synchronous. The session is one that the viewer may see."""
        self._find_principal, self._session = find_principal, session
        queued = [status.run_id for status in _queue_of(session.id)]
        self._state = projection.Projection(_texts, queued, may_decide=bool(self.allowed_decisions()))

    @classmethod
    def open(cls, find_principal: Callable[[], Principal], session_id: UUID) -> Self:
        """Return the frames of a session for a caller. Synchronous. Raises NotFound."""
        return cls(find_principal, access_session(find_principal().user, session_id))

    def allowed_decisions(self) -> Collection[Decision]:
        """Return the decisions that the viewer may make now on requests for approval. Synchronous."""
        principal = self._find_principal()
        return permissions.allowed_decisions(principal.user, self._session.owner_id) if principal.can_write else ()

    async def frames_of(self, batch: Sequence[SessionEvent]) -> list[Frame]:
        """Return the frames for a batch of events, in order."""
        now = _stored_part(batch[-1].cursor)
        updates = await _rendering.run(partial(self._state.updates, batch), is_long=self._state.is_long(batch))
        return [frame for update in updates for frame in await self._frames_of(update, now)]

    async def frames_of_thread(self, before: int | None = None) -> list[Frame]:
        """Return the frame that shows the newest turns as they are now, or those before that ordinal."""
        return await (in_db(self._branch, ShowBranch(0)) if before is None else in_db(self._older, before))

    def frames_of_rating(self, run_id: UUID, rating: Feedback | None, *, asks: bool) -> list[Frame]:
        """Return the frame that shows the viewer's rating of an answer. asks: with the form for a comment."""
        return [rating_frame(run_id, rating, asks=asks)]

    async def _frames_of(self, update: PageUpdate, now: str) -> list[Frame]:
        """Return the frames of an update. now: the last stored event, by which those of the present are shared."""
        if isinstance(update, ShowTurn):
            key = (update.run_id, update.message_id, update.seq)
            return await _turn_views.get(key, partial(self._turn_view, update))
        if isinstance(update, ShowApproval):
            return await in_db(self._approval, update)
        if isinstance(update, ShowWorkstream):
            return await _workstreams.get((update, now), partial(self._workstream, update))
        if isinstance(update, ShowBranch):
            return await in_db(self._branch, update)
        if isinstance(update, ShowAnswer):
            return await _answers.get(update.run_id, partial(self._answer, update.run_id))
        if isinstance(update, ShowQueue):
            return await _queues.get((self._session.id, now), self._queue)
        if isinstance(update, ShowFiles):
            return await _files.get((self._session.id, now), self._list_of_files)
        return [frame_of(update)]

    def _approval(self, update: ShowApproval) -> list[Frame]:
        card = queries.read_approval(update.approval_id, allowed_decisions=self.allowed_decisions())
        return [approval_frame(update.run_id, card)]

    def _branch(self, update: ShowBranch) -> list[Frame]:
        page = queries.read_newest(self._session, allowed_decisions=self.allowed_decisions())
        return [branch_frame(self._session, self._rated(page), update.place)]

    def _older(self, before: int) -> list[Frame]:
        return [older_frame(self._session, self._rated(queries.read_older(self._session, before)))]

    def _rated(self, page: TurnPage) -> TurnPage:
        return queries.with_ratings(page, self._find_principal().user)

    async def _turn_view(self, update: ShowTurn) -> list[Frame]:
        """Return the turn as it was when its message came: later events have updates of their own."""
        turn_view = await in_db(queries.find_new_turn_view, self._session, update.run_id)
        return [turn_frame(turn_view, update.message_id)] if turn_view else []

    async def _answer(self, run_id: UUID) -> list[Frame]:
        """Return a stored answer, which never changes again."""
        turn_view = await in_db(queries.find_turn_view, self._session, run_id)
        return [answer_frame(turn_view)] if turn_view and not turn_view.is_open else []

    async def _workstream(self, update: ShowWorkstream) -> list[Frame]:
        card = await in_db(workstream_queries.read_card, update.run_id)
        return [workstream_frame(card, is_announced=update.is_announced)]

    async def _queue(self) -> list[Frame]:
        return [frame_of(status) for status in await in_db(_queue_of, self._session.id)]

    async def _list_of_files(self) -> list[Frame]:
        return [files_frame(await in_db(read_files, self._session.id))]


class ChatSocket(AsyncWebsocketConsumer):
    """One viewer. Messages are JSON: {"cursor": resumes after the message, "acts": [frames]}, or {} as a heartbeat."""

    principal: Principal
    session: Session
    session_id: UUID
    is_endless = True
    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        # Accepted before the check, because browsers do not report why a handshake was refused.
        await self.accept()
        try:
            await in_db(self._admit)
        except AppError as error:
            await self.close(_close_code(error))
            return
        cursor = parse_qs(self.scope["query_string"].decode("latin-1")).get("cursor", [""])[0]
        # Resumes at the last stored event. Later text is sent again from the start of its step and cut by the page,
        # because Markdown blocks cannot be rendered from the middle of a text.
        work = (self._send_updates(_stored_part(cursor)), self._keep_alive(), self._wait_for_refusal())
        self._tasks = tuple(asyncio.create_task(self._or_close(part)) for part in work)

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _admit(self) -> None:
        """Find the viewer and the session. Raises Unauthenticated, NotFound."""
        try:
            principal = authenticate(self.scope)
        except (AppError, UnicodeDecodeError):
            principal = None
        if principal is None or principal.kind != "session":
            raise Unauthenticated
        self.principal, self.session_id = principal, UUID(str(self.scope["url_route"]["kwargs"]["session_id"]))
        self.session = access_session(principal.user, self.session_id)

    async def _or_close(self, work: Coroutine[Any, Any, int]) -> None:
        """Do the work; close with the code that it returns, or with FAILED."""
        try:
            code = await work
        except _ViewerGone:
            with suppress(Exception):  # it is closed by now
                await self.close(FAILED)
            return
        except Exception:
            logger.exception("the socket of a viewer of session %s failed", self.session.id)
            code = FAILED
        await self.close(code)

    async def _keep_alive(self) -> int:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._send({})

    async def _wait_for_refusal(self) -> int:
        return _close_code(await until_refused(self))

    async def _send_updates(self, cursor: str) -> int:
        async with Viewer(self.session.id, cursor, children=Children.ALL) as viewer:
            await self._send({})  # shows the page that it is connected
            state = await in_db(PageFrames, lambda: self.principal, self.session)
            async for batch in viewer.frames():
                frames = await state.frames_of(batch)
                await self._send({"cursor": _stored_part(batch[-1].cursor), "acts": frames})
        return TOO_SLOW

    async def _send(self, message: Frame) -> None:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        try:
            await self.send(text_data=text)
        except Exception as error:  # each server raises its own for a closed connection
            raise _ViewerGone from error


class _ViewerGone(Exception):
    """The connection was closed before a message could be sent."""


def _close_code(refusal: AppError) -> int:
    return NOT_LOGGED_IN if isinstance(refusal, Unauthenticated) else NOT_YOURS


def _queue_of(session_id: UUID) -> list[ShowStatus]:
    """Return the status of each queued run, with its place."""
    queued = [run for run in agents.list_open_runs(session_id) if run.status is RunStatus.QUEUED]
    return [ShowStatus(run.id, status_of(run, place=place)) for place, run in enumerate(queued, start=1)]


def _stored_part(cursor: str) -> str:
    """Return the part of a cursor that names the last stored event, `<seq>`; "" for an invalid cursor."""
    found = re.match(r"[0-9]{1,18}(?=\.|$)", cursor, re.ASCII)
    return found.group() if found else ""


routes = [path("ws/chat/<uuid:session_id>", ChatSocket.as_asgi())]
