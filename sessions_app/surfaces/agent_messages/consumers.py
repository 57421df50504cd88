"""Streams: messages as server-sent events and over WebSockets, and the history of a run's record.

A stream first sends the messages that its client lacks, then continues live. The credential may be in the query, for
clients that cannot send headers. Each message carries its `ts`, with which a client resumes.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar
from urllib.parse import parse_qs
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import path

from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, InvalidInput
from audit_app.kernel.json_text import as_json
from sessions_app.identity import rate_limits
from sessions_app.identity.authentication import request_from_scope
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import admit_bearer
from sessions_app.live_view.cursor import Children
from sessions_app.live_view.viewer import Viewer
from sessions_app.surfaces.agent_messages import agent_runs, queries, requests, run_details, signals
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.message_stream import MessageStream, is_closing
from sessions_app.surfaces.agent_messages.operations import BOOLEANS, LIVE, SINCE, query_value
from sessions_app.surfaces.agent_messages.wire_format import Compact
from sessions_app.surfaces.base.bodies import parse_json
from sessions_app.surfaces.base.consumers import ClientGone
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT
from sessions_app.surfaces.base.reauthentication import until_refused
from sessions_app.surfaces.base.sse import EventStreamConsumer

logger = logging.getLogger(__name__)

NORMAL, FAILED, REFUSED = 1000, 1011, 4401  # close codes of sockets
_LONGEST_FRAME = 256 * 1024


_admit = partial(admit_bearer, from_query="token")


class _StreamConsumer(EventStreamConsumer):
    admit = staticmethod(_admit)
    is_endless = True
    children = Children.STORED
    methods: ClassVar[tuple[str, ...]] = ("GET",)

    def agent_run(self) -> AgentRun:
        """Return the run of the URL. Synchronous. Raises NotFound."""
        kwargs = self.scope["url_route"]["kwargs"]
        return agent_runs.access_run(self.principal.user, kwargs["run_id"], kwargs.get("workflow_id", ""))


class MessageStreamConsumer(_StreamConsumer):
    """The messages after `since`; without it the whole history first, unless `skipHistory` is true."""

    children = Children.ALL

    @Operation(
        "Stream the messages of a run",
        answers={200: Answer("One message per event, in compact form.", TEXT, EVENTS)},
        parameters=[SINCE, query_value("skipHistory", "Skip messages that exist already.", *BOOLEANS)],
        **LIVE,
    )
    async def respond(self, body: bytes) -> None:
        query = self.request.GET
        since = requests.read_since(query.get("since", "") or self._headers.get("last-event-id", ""))
        skips_history = query.get("skipHistory", "") in ("true", "1")
        stream, messages = await in_db(self._open, since, skips_history)
        await self.open_stream()
        await self.send_text(": connected\n\n")
        await self._send_messages(messages)
        if not (messages and await self._is_over(stream, messages)):
            async for frame in self.watch(stream.session.id, stream.cursor, open_children=stream.open_children):
                messages = await stream.messages(frame)
                await self._send_messages(messages)
                if messages and await self._is_over(stream, messages):
                    break
        await self.close_stream()

    def _open(self, since: float, skips_history: bool) -> tuple[MessageStream, list[Compact]]:
        with_history = bool(since) or not skips_history
        return open_message_stream(self.principal, self.agent_run(), since, with_history=with_history)

    async def _send_messages(self, messages: Iterable[Compact]) -> None:
        """Send all messages in one write."""
        text = "".join(f"id: {message['ts']}\ndata: {as_json(message)}\n\n" for message in messages)
        if text:
            await self.send_text(text)

    async def _is_over(self, stream: MessageStream, messages: list[Compact]) -> bool:
        """Return whether the run has ended with the last of these messages."""
        return is_closing(messages[-1]) and (await in_db(agent_runs.load, stream.session)).is_terminal


class DetailStreamConsumer(_StreamConsumer):
    """The kept events of the run, each as a `history` event, then a `control` event at its end."""

    @Operation(
        "Stream the details of a run",
        answers={200: Answer("`history` events, `control` at the end.", TEXT, EVENTS)},
        **LIVE,
    )
    async def respond(self, body: bytes) -> None:
        run = await in_db(self.agent_run)
        await self.open_stream()
        await self.send_text(": connected\n\n")
        async for frame in self.watch(run.session.id, ""):
            kept = [event for event in frame if event.ts is not None]
            for event in kept:
                shown = {"runId": run.id, "event": run_details.history_event(event)}
                await self.send_event(as_json(shown), event="history")
            if kept and (await in_db(agent_runs.load, run.session)).is_terminal:
                await self.send_event(as_json({"type": "done"}), event="control")
                break
        await self.close_stream()


class MessageSocket(AsyncWebsocketConsumer):
    """Messages in the wire form, and signals of the client, each answered with its `requestId`."""

    principal: Principal
    session_id: UUID
    is_endless = True
    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        kwargs = self.scope["url_route"]["kwargs"]
        try:
            query = parse_qs(self.scope["query_string"].decode("latin-1"))
            request = request_from_scope({**self.scope, "method": "GET"})
            self.principal = await in_db(_admit, request, rate_limits.api_limit())
            context.actor.set(self.principal.actor)
            self._ids = kwargs["run_id"], kwargs.get("workflow_id", "")
            since = requests.read_since(query.get("since", [""])[0])
            stream, messages = await in_db(self._open, since)
            self.session_id = stream.session.id
        except (AppError, UnicodeDecodeError):
            await self.close()  # before `accept`: the client receives 403
            return
        await self.accept()
        work = (self._follow(stream, messages), self._keep_checking())
        self._tasks = tuple(asyncio.create_task(self._then_close(part)) for part in work)

    def _open(self, since: float) -> tuple[MessageStream, list[Compact]]:
        return open_message_stream(self.principal, self._agent_run(), since, with_history=True)

    def _agent_run(self) -> AgentRun:
        return agent_runs.access_run(self.principal.user, *self._ids)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        request_id: Any = None
        try:
            if text_data is None or len(text_data) > _LONGEST_FRAME:
                raise InvalidInput("A frame must be a text of at most 256 KB.", code="invalid_frame")
            frame = requests.as_object(parse_json(text_data.encode()))
            request_id = frame.get("requestId")
            answer = await self._handle(frame, request_id)
        except Exception as error:
            answer = {"type": "error", "error": http_error_of(error).message}
            if request_id is not None:
                answer["requestId"] = request_id
        with suppress(ClientGone):
            await self._send(answer)

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _handle(self, frame: Mapping[str, Any], request_id: Any) -> dict[str, Any]:
        if frame.get("type") == "ping":
            return {"type": "pong"}
        if frame.get("type") != "signal":
            raise InvalidInput("`type` must be signal or ping.", code="unknown_frame")
        await in_db(self._signal, str(frame.get("signalName")), frame.get("data"))
        return {"type": "ack", "requestId": request_id}

    async def _then_close(self, work: Coroutine[Any, Any, int]) -> None:
        """Run the work, then close with the code that it returns; an exception closes the socket, too."""
        try:
            code = await work
        except ClientGone:
            return
        except Exception:
            logger.exception("cannot send messages of agent run %s to a client", self._ids[0])
            code = FAILED
        with suppress(Exception):  # servers raise different exceptions for a closed connection
            await self.close(code)

    async def _keep_checking(self) -> int:
        await until_refused(self)
        return REFUSED

    def _signal(self, name: str, body: Any) -> None:
        rate_limits.take(rate_limits.api_limit(), self.principal.actor)
        signals.send(self.principal, self._agent_run(), name, body)

    async def _follow(self, stream: MessageStream, messages: list[Compact]) -> int:
        await self._send(*messages)
        cursor = stream.cursor
        known: set[UUID] | None = stream.open_children
        while True:
            viewing = Viewer(stream.session.id, cursor, children=Children.ALL, open_children=known)
            async with viewing as viewer:
                async for frame in viewer.frames():
                    cursor = frame[-1].cursor
                    await self._send(*await stream.messages(frame))
                if not viewer.overflowed:
                    return NORMAL
            known = None

    async def _send(self, *values: Mapping[str, Any]) -> None:
        for value in values:
            try:
                await self.send(text_data=as_json(value))
            except Exception as error:  # servers raise different exceptions for a closed connection
                raise ClientGone from error


def open_message_stream(
    principal: Principal, run: AgentRun, since: float, *, with_history: bool
) -> tuple[MessageStream, list[Compact]]:
    """Return a stream and the stored messages that precede it. Synchronous."""
    if not with_history:
        return MessageStream(run.session, queries.open_reader_at_end(principal, run), has_resumed=False), []
    reader = queries.open_reader(principal, run, since)
    messages = [] if since else queries.read_forked_history(principal, run)
    messages += queries.read_messages(run.session, reader)
    return MessageStream(run.session, reader, has_resumed=bool(since)), messages


_RUN = "api/v1/agents/<str:run_id>"
_WORKFLOW = "api/v1/workflows/runs/<str:workflow_id>/<str:run_id>"

routes = [
    path(f"{_RUN}/stream", MessageStreamConsumer.as_asgi()),
    path(f"{_RUN}/details/stream", DetailStreamConsumer.as_asgi()),
    path(f"{_WORKFLOW}/stream", MessageStreamConsumer.as_asgi()),
    path(f"{_RUN}/ws", MessageSocket.as_asgi()),
    path(f"{_WORKFLOW}/ws", MessageSocket.as_asgi()),
]
