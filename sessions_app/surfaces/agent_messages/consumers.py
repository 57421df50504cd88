"""What streams: messages as server-sent events and over WebSockets, and the history of a run's record.

A stream first gives what a client lacks, then goes on live. Its credential may stand in the address, where clients that
cannot send headers put it. Every event carries its `ts`, by which a client comes back.
"""

import asyncio
import json
import logging
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest
from django.urls import path

from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, InvalidInput
from sessions_app.identity import rate_limits
from sessions_app.identity.authentication import request_from_scope
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import admit_bearer, check_again
from sessions_app.live_view.viewer import Viewer
from sessions_app.surfaces.agent_messages import agent_runs, queries, requests, run_details, signals
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.message_stream import Telling, is_closing
from sessions_app.surfaces.agent_messages.wire_format import Compact
from sessions_app.surfaces.base.bodies import parse_json
from sessions_app.surfaces.base.consumers import ClientGone
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.reauthentication import until_refused
from sessions_app.surfaces.base.sse import EventStreamConsumer

logger = logging.getLogger(__name__)

# How a socket is closed: at its end, by a fault of ours, because its client may not watch any longer.
NORMAL, FAILED, REFUSED = 1000, 1011, 4401
_LONGEST_FRAME = 256 * 1024


def _admit(request: HttpRequest, limit: rate_limits.Limit) -> Principal:
    return admit_bearer(request, limit, from_query=True)


class _Stream(EventStreamConsumer):
    admit = staticmethod(_admit)
    is_endless = True
    methods: ClassVar[tuple[str, ...]] = ("GET",)

    def recheck(self) -> None:
        super().recheck()
        self.agent_run()

    def agent_run(self) -> AgentRun:
        """Synchronous."""
        named = self.scope["url_route"]["kwargs"]
        return agent_runs.access_run(self.principal.user, named["run_id"], named.get("workflow_id", ""))


class MessageStream(_Stream):
    """`since`: after that time; without one the whole history comes first, unless `skipHistory` is true."""

    async def respond(self, body: bytes) -> None:
        asked = self.request.GET
        since = requests.read_since(asked.get("since", "") or self._headers.get("last-event-id", ""))
        skips = asked.get("skipHistory", "") in ("true", "1")
        telling, begun = await in_db(self._begin, since, skips)
        await self.open_stream()
        await self.send_text(": connected\n\n")
        await self._tell(begun)
        if not (begun and await self._is_over(telling, begun)):
            async for frame in self.watch(telling.session_id, telling.cursor):
                said = await telling.tell(frame)
                await self._tell(said)
                if said and await self._is_over(telling, said):
                    break
        await self.close_stream()

    def _begin(self, since: float, skips: bool) -> tuple[Telling, list[Compact]]:
        return begin(self.principal, self.agent_run(), since, with_history=bool(since) or not skips)

    async def _tell(self, said: Iterable[Compact]) -> None:
        """All there is at once, as one write."""
        text = "".join(f"id: {message['ts']}\ndata: {as_json(message)}\n\n" for message in said)
        if text:
            await self.send_text(text)

    async def _is_over(self, telling: Telling, said: list[Compact]) -> bool:
        """Whether the run has ended with what was said last, so that nothing more is to come."""
        if not is_closing(said[-1]):
            return False
        run = await in_db(agent_runs.load, telling.session)
        return run.is_terminal


class DetailStream(_Stream):
    """The kept events of the run as named events: `history` each, `control` at the end."""

    async def respond(self, body: bytes) -> None:
        run = await in_db(self.agent_run)
        await self.open_stream()
        await self.send_text(": connected\n\n")
        async for frame in self.watch(run.session.id, ""):
            kept = [fact for fact in frame if fact.ts is not None]
            for fact in kept:
                shown = {"runId": run.id, "event": run_details.event(fact)}
                await self.send_event(as_json(shown), event="history")
            if kept and (await in_db(agent_runs.load, run.session)).is_terminal:
                await self.send_event(as_json({"type": "done"}), event="control")
                break
        await self.close_stream()


class MessageSocket(AsyncWebsocketConsumer):
    """Messages in the wire form; signals from the client, each answered by its `requestId`."""

    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        named = self.scope["url_route"]["kwargs"]
        try:
            query = parse_qs(self.scope["query_string"].decode("latin-1"))
            self._principal = await in_db(_principal_of, self.scope)
            context.actor.set(self._principal.actor)
            self._names = named["run_id"], named.get("workflow_id", "")
            since = requests.read_since(query.get("since", [""])[0])
            telling, begun = await in_db(self._begin, since)
        except (AppError, UnicodeDecodeError):
            await self.close()  # before it is accepted: the client sees 403
            return
        await self.accept()
        work = (self._follow(telling, begun), self._keep_checking())
        self._tasks = tuple(asyncio.create_task(self._then_close(part)) for part in work)

    def _begin(self, since: float) -> tuple[Telling, list[Compact]]:
        return begin(self._principal, self._agent_run(), since, with_history=True)

    def _agent_run(self) -> AgentRun:
        return agent_runs.access_run(self._principal.user, *self._names)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        request_id: Any = None
        try:
            frame = _read_frame(text_data)
            request_id = frame.get("requestId")
            answer = await self._obey(frame, request_id)
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

    async def _obey(self, frame: Mapping[str, Any], request_id: Any) -> dict[str, Any]:
        if frame.get("type") == "ping":
            return {"type": "pong"}
        if frame.get("type") != "signal":
            raise InvalidInput("A frame is a signal or a ping.", code="unknown_frame")
        await in_db(self._signal, str(frame.get("signalName")), frame.get("data"))
        return {"type": "ack", "requestId": request_id}

    async def _then_close(self, work: Coroutine[Any, Any, int]) -> None:
        """Do the work, then close with the code it returns: whatever ends it, no client is left to wait for more."""
        try:
            code = await work
        except ClientGone:
            return
        except Exception:
            logger.exception("a viewer of agent run %s was not served", self._names[0])
            code = FAILED
        with suppress(Exception):  # each server has its own for a connection that is closed by now
            await self.close(code)

    async def _keep_checking(self) -> int:
        await until_refused(self._recheck)
        return REFUSED

    def _recheck(self) -> None:
        check_again(self.scope, self._principal)
        self._agent_run()

    def _signal(self, name: str, body: Any) -> None:
        rate_limits.take(rate_limits.api_limit(), self._principal.actor)
        signals.send(self._principal, self._agent_run(), name, body)

    async def _follow(self, telling: Telling, begun: list[Compact]) -> int:
        await self._tell(begun)
        cursor = telling.cursor
        while True:
            async with Viewer(telling.session_id, cursor) as viewer:
                async for frame in viewer.frames():
                    cursor = frame[-1].cursor
                    await self._tell(await telling.tell(frame))
                if not viewer.overflowed:
                    return NORMAL

    async def _tell(self, said: Iterable[Compact]) -> None:
        for message in said:
            await self._send(message)

    async def _send(self, value: Mapping[str, Any]) -> None:
        try:
            await self.send(text_data=as_json(value))
        except Exception as error:  # each server has its own for a connection that is closed by now
            raise ClientGone from error


def begin(principal: Principal, run: AgentRun, since: float, *, with_history: bool) -> tuple[Telling, list[Compact]]:
    """What a client is to be told at once, and who tells it the rest. Synchronous."""
    if not with_history:
        return Telling(run.session, queries.open_at_end(principal, run), came_back=False), []
    place = queries.open_reading(principal, run, since)
    told = [] if since else queries.read_beginning(principal, run)
    told += queries.read_on(run.session, place)
    return Telling(run.session, place, came_back=bool(since)), told


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _principal_of(scope: Mapping[str, Any]) -> Principal:
    return _admit(request_from_scope({**scope, "method": "GET"}), rate_limits.api_limit())


def _read_frame(text: str | None) -> dict[str, Any]:
    if text is None or len(text) > _LONGEST_FRAME:
        raise InvalidInput("A frame is a text of at most 256 KB.", code="invalid_frame")
    return requests.as_object(parse_json(text.encode()))


_RUN = "api/v1/agents/<str:run_id>"
_WORKFLOW = "api/v1/workflows/runs/<str:workflow_id>/<str:run_id>"

routes = [
    path(f"{_RUN}/stream", MessageStream.as_asgi()),
    path(f"{_RUN}/details/stream", DetailStream.as_asgi()),
    path(f"{_WORKFLOW}/stream", MessageStream.as_asgi()),
    path(f"{_RUN}/ws", MessageSocket.as_asgi()),
    path(f"{_WORKFLOW}/ws", MessageSocket.as_asgi()),
]
