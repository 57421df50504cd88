"""The WebSocket `/v1/responses`: one response after the other, with the events that a streamed response has.

The connection keeps the id of its last response, which is all that continues one that is not stored. A client that
leaves stops no run: it reads a stored response later. Open Responses, "WebSocket Transport"; guide "WebSocket Mode".
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest

from agents_app.types import RunOptions
from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, InvalidInput, RateLimited, Unavailable
from audit_app.kernel.ids import new_id
from audit_app.kernel.json_text import as_json
from sessions_app.access import access_agent
from sessions_app.identity import rate_limits
from sessions_app.identity.authentication import request_from_scope
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import admit_again, admit_bearer
from sessions_app.identity.request_ids import request_id_from
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.surfaces.base import client_calls
from sessions_app.surfaces.base.bodies import clean, parse_json
from sessions_app.surfaces.base.consumers import ClientGone
from sessions_app.surfaces.base.http_errors import HttpError, http_error_of
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.base.reauthentication import until_refused
from sessions_app.surfaces.openai import responses
from sessions_app.surfaces.openai.commands import AcceptedRequest, accept, previous_run
from sessions_app.surfaces.openai.endpoint import context_of, is_last, response_events, until_end
from sessions_app.surfaces.openai.errors import error_body
from sessions_app.surfaces.openai.item_references import resolve_references
from sessions_app.surfaces.openai.projection_responses import ResponseEvents
from sessions_app.surfaces.openai.requests import NAME, ParsedRequest, read_response, read_warm_up
from sessions_app.surfaces.openai.responses import ResponseContext

NORMAL, REFUSED = 1000, 4401  # close codes
LONGEST_SECONDS = 3_600.0
_MOST_WAITING, _MOST_WARM = 16, 8
_OF_HTTP = ("type", "generate", "stream", "stream_options", "background", "stream_id")
_NOT_FOUND = "previous_response_not_found"
_NO_STEERING = {
    "code": "steering_not_supported",
    "message": "Send the text as the next response.create.",
    "type": "invalid_request_error",
}


class _WarmUp(NamedTuple):
    """A request that a later one continues. previous: the response that it continues itself, or empty."""

    previous: str
    items: list[Any]


class ResponseSocket(AsyncWebsocketConsumer):
    """Frames of the client are answered in their order; further ones wait."""

    principal: Principal
    request: HttpRequest
    session_id: UUID | None = None
    is_endless = True
    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        try:
            self.request = request_from_scope(self.scope)
            self.principal = await in_db(admit_bearer, self.request, rate_limits.api_limit())
        except (AppError, SuspiciousOperation, UnicodeDecodeError):
            await self.close()  # before `accept`: the client receives 403
            return
        context.actor.set(self.principal.actor)
        self._kept = ""  # id of the last response, if it may be continued
        self._warm: dict[str, _WarmUp] = {}
        self._frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_MOST_WAITING)
        await self.accept()
        self._tasks = tuple(asyncio.create_task(part) for part in (self._serve(), self._limit(), self._keep_checking()))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        with suppress(ClientGone):
            try:
                frame = clean(parse_json((text_data or "").encode()))
                kind = frame.get("type") if isinstance(frame, dict) else None
                if kind == "response.steer":
                    steer = {name: frame.get(name) for name in ("input", "previous_response_id")}
                    await self._send({"type": "response.steer.failed", "error": _NO_STEERING, "steer": steer})
                    return
                if kind != "response.create":
                    raise InvalidInput("Send JSON objects of the type response.create.", code="unknown_event")
                self._frames.put_nowait(frame)
            except asyncio.QueueFull:
                problem = f"{_MOST_WAITING} requests wait on this connection already. Send again after a response."
                await self._send_error(RateLimited(problem, code="too_many_requests", retry_after_seconds=1))
            except Exception as error:
                await self._send_error(error)

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self) -> None:
        with suppress(ClientGone):
            while True:
                frame = await self._frames.get()
                with context.bind(request_id=request_id_from(None), actor=self.principal.actor):
                    await self._answer(frame)

    async def _answer(self, frame: dict[str, Any]) -> None:
        stream = {"stream_id": frame["stream_id"]} if isinstance(frame.get("stream_id"), str) else {}
        previous, is_done = frame.get("previous_response_id"), False
        try:
            body = {name: value for name, value in frame.items() if name not in _OF_HTTP}
            if frame.get("generate") is False:
                await self._warm_up(body, stream)
                is_done = True
            else:
                is_done = await self._respond(body, stream)
        except ClientGone:
            raise
        except Exception as error:
            await self._send_error(error, stream)
        finally:
            if not is_done and isinstance(previous, str):  # a chain that has failed goes on nowhere
                self._warm.pop(previous, None)
                self._kept = "" if self._kept == previous else self._kept

    async def _respond(self, body: dict[str, Any], stream: Mapping[str, str]) -> bool:
        """Answer a request. Return whether it can be continued."""
        parsed, request = await store_message(self._store, body)
        shown = context_of(parsed, request)
        self.session_id = request.session_id
        status = ""
        try:
            async for events in response_events(shown, self._run_events(request)):
                for event in events:
                    await self._send({**event, **stream})
                    status = event["response"]["status"] if "response" in event else status
        finally:
            self.session_id = None
        if status in ("completed", "incomplete"):
            self._kept = shown.response_id
            return True
        return False

    def _store(self, body: dict[str, Any]) -> tuple[ParsedRequest, AcceptedRequest]:
        """Admit the request and store it as a message. Synchronous."""
        self._admit_now()
        warm = self._warm.get(str(body.get("previous_response_id")))
        parsed = read_response(resolve_references(self.principal.user, _after(body, warm)))
        parsed = replace(parsed, keeps_previous=bool(parsed.previous) and parsed.previous == self._kept)
        if warm:
            parsed = replace(parsed, options=_continuing(parsed.options, str(body["previous_response_id"])))
        return parsed, accept(self.principal, parsed, "")

    def _admit_now(self) -> None:
        self.principal = admit_again(self.request, self.principal, rate_limits.chat_limit())
        context.actor.set(self.principal.actor)
        self.principal.require_write()

    async def _warm_up(self, body: dict[str, Any], stream: Mapping[str, str]) -> None:
        """Check a request and keep its input for the next one. Nothing is stored."""
        parsed = await in_db(self._check, body)
        note = {**(parsed.options.note or {}).get(NAME, {}), "store": False}
        options = replace(parsed.options, note={NAME: note})
        shown = ResponseContext(new_id(), parsed.model, int(time.time()), options)
        events = ResponseEvents(shown)
        for event in (*events.begin(), *events.end(responses.response(shown, "completed", []))):
            await self._send({**event, **stream})
        earlier = self._warm.get(str(body.get("previous_response_id")))
        joined = _after(body, earlier)
        self._warm[shown.response_id] = _WarmUp(joined.get("previous_response_id") or "", _items(joined))
        for oldest in list(self._warm)[:-_MOST_WARM]:
            del self._warm[oldest]

    def _check(self, body: dict[str, Any]) -> ParsedRequest:
        self._admit_now()
        user, warm = self.principal.user, self._warm.get(str(body.get("previous_response_id")))
        parsed = read_warm_up(resolve_references(user, _after(body, warm)))
        agent = access_agent(user, parsed.model)
        client_calls.check_names(parsed.options.client_tools or (), agent.agent_id)
        if parsed.previous:
            previous_run(user, replace(parsed, keeps_previous=parsed.previous == self._kept))
        return replace(parsed, options=_continuing(parsed.options, str(body.get("previous_response_id") or "")))

    async def _run_events(self, request: AcceptedRequest) -> AsyncIterator[list[SessionEvent]]:
        """Yield the events of the run to its end. Raises Unavailable if the server shuts down before."""
        has_ended = False
        async for events in until_end(_frames_of(request), request.run_id, request.first_step):
            has_ended = is_last(events[-1])
            yield events
        if not has_ended:
            raise Unavailable("The server restarts. The run continues: connect again.", code="restarting")

    async def _limit(self) -> None:
        await asyncio.sleep(LONGEST_SECONDS)
        message = "A connection lasts at most 60 minutes. Open a new one to continue."
        await self._end(InvalidInput(message, code="websocket_connection_limit_reached"), NORMAL)

    async def _keep_checking(self) -> None:
        await self._end(await until_refused(self), REFUSED)

    async def _end(self, error: Exception, code: int) -> None:
        with suppress(Exception):  # servers raise different exceptions for a closed connection
            await self._send_error(error)
            await self.close(code)

    async def _send_error(self, error: Exception, stream: Mapping[str, str] | None = None) -> None:
        failure = http_error_of(error)
        if failure.code == _NOT_FOUND:
            failure = HttpError(400, failure.code, failure.message, extra=failure.extra)  # as the protocol has it
        await self._send({"type": "error", "status": failure.status, **error_body(failure), **(stream or {})})

    async def _send(self, event: Mapping[str, Any]) -> None:
        try:
            await self.send(text_data=as_json(event))
        except Exception as error:  # as above
            raise ClientGone from error


async def _frames_of(request: AcceptedRequest) -> AsyncIterator[list[SessionEvent]]:
    cursor = request.cursor
    while True:
        async with Viewer(request.session_id, cursor) as viewer:
            async for frame in viewer.frames():
                cursor = frame[-1].cursor if frame else cursor
                yield frame
        if not viewer.overflowed:
            return


def _items(body: Mapping[str, Any]) -> list[Any]:
    given = body.get("input") or []
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


def _after(body: dict[str, Any], warm: _WarmUp | None) -> dict[str, Any]:
    """Return the body of a request with the input of the request that it continues, which was not answered."""
    if warm is None:
        return body
    return {**body, "input": [*warm.items, *_items(body)], "previous_response_id": warm.previous or None}


def _continuing(options: RunOptions, previous: str) -> RunOptions:
    """Return the options of a request whose response names the one that it continues."""
    return replace(options, note={NAME: {**(options.note or {}).get(NAME, {}), "previous": previous}})
