"""Consumers of chat completions and responses, which wait or stream.

A client that closes its request stops the run, as it would stop a model; a background response continues. So does a run
whose request was cut because the server shut down: a client that retries gets its answer.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.urls import path

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.events import RUN_ENDS
from agents_app.types import RunTranscript, WaitingOn
from audit_app.kernel.database import in_db
from sessions_app import selectors, services
from sessions_app.access import access_session
from sessions_app.conversation.citations import full_text
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import wait_until_ended
from sessions_app.surfaces.base.bodies import clean, parse_json
from sessions_app.surfaces.base.consumers import MessageConsumer
from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.openapi.operations import EVENTS, IDEMPOTENCY_KEY, Answer, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import COUNT, one_of, ref
from sessions_app.surfaces.base.run_errors import http_status_of
from sessions_app.surfaces.base.sse import EventStreamConsumer, event_text
from sessions_app.surfaces.openai import errors, responses, sdk_retries
from sessions_app.surfaces.openai.annotations import CitedByStep
from sessions_app.surfaces.openai.body_schemas import COMPLETION_BODY, RESPONSE_BODY
from sessions_app.surfaces.openai.commands import AcceptedRequest, accept, accept_retry, run_of
from sessions_app.surfaces.openai.data_parts import invalid_param
from sessions_app.surfaces.openai.item_references import resolve_references
from sessions_app.surfaces.openai.projection_completions import Completion, finish_reason
from sessions_app.surfaces.openai.projection_responses import ResponseEvents, has_text
from sessions_app.surfaces.openai.requests import ParsedRequest, read_completion, read_response
from sessions_app.surfaces.openai.responses import ResponseContext, as_json
from tools_app import selectors as tools
from tools_app.events import INPUT_REQUESTED
from tools_app.types import ApprovalView

# A run's owner ends it within a second; a process that hangs must not keep the client waiting.
_CANCEL_SECONDS = 5
# SDKs retry after a 409 and any 5xx, which would start a second run with all its side effects.
_NO_RETRY = {"X-Should-Retry": "false"}
_EITHER = f"Complete, or as {EVENTS} with `stream`."
_CREATES: dict[str, Any] = {"streams": True, "parameters": [IDEMPOTENCY_KEY], "errors": [404, 409, 422, 502, 504]}


class _Endpoint(EventStreamConsumer):
    """Base of all endpoints: may stream the answer of a run."""

    is_endless = True  # an answer may wait for an approval

    async def break_off(self, failure: HttpError) -> None:
        """Send the error as the last event: clients take a stream that merely ends for a complete answer."""
        await self.send_event(as_json(self.error_body(failure)), event="error")
        await super().break_off(failure)

    async def run_events(
        self, session_id: UUID, run_id: UUID, cursor: str, *, with_dead_claims: bool = False
    ) -> AsyncIterator[list[SessionEvent]]:
        """Yield the events of the run until it ends or waits for the user's answer to a question.

        Those that wait at the same time come together, so that they are written together.
        with_dead_claims: as for `Viewer`.
        """
        async for frame in self.watch(session_id, cursor, with_dead_claims=with_dead_claims):
            events = [event for event in frame if event.run_id == run_id]
            for place, event in enumerate(events, start=1):
                if event.type in RUN_ENDS or event.type == INPUT_REQUESTED.name:
                    yield events[:place]
                    return
            if events:
                yield events


class _NewAnswer(MessageConsumer, _Endpoint):
    """Base of both protocols: stores the request as a message and follows its run."""

    methods = ("POST",)
    _run_id: UUID | None = None
    _parsed: ParsedRequest

    async def respond(self, body: bytes) -> None:
        """Store the request of this body as a message and answer it."""
        try:
            request = await self.store(self._accept, body, finish_on_cancel=True)
            await self.answer(self._parsed, request)
        except asyncio.CancelledError:
            if self._run_id is not None:
                await asyncio.shield(self._end_early(self._run_id, self._parsed))
            raise

    @abstractmethod
    def read(self, body: bytes) -> ParsedRequest:
        """Return the request of a body. Synchronous; it may read from the database."""

    @abstractmethod
    async def answer(self, parsed: ParsedRequest, request: AcceptedRequest) -> None:
        """Send the response to a request that is stored."""

    def _accept(self, body: bytes) -> AcceptedRequest:
        self._parsed = self.read(body)
        self._digest = sdk_retries.digest_of(self.principal.user, self.scope["path"], body)
        key = self.request.headers.get("Idempotency-Key", "")
        request = (None if key else self._accept_retry()) or accept(self.principal, self._parsed, key)
        self._run_id = request.accepted.run_id
        return request

    def _accept_retry(self) -> AcceptedRequest | None:
        if self.request.headers.get(sdk_retries.RETRY_COUNT, "0") == "0":
            return None
        run_id = sdk_retries.pop_cut(self._digest)
        return None if run_id is None else accept_retry(self.principal.user, run_id)

    async def _end_early(self, run_id: UUID, parsed: ParsedRequest) -> None:
        """Stop the run if the client left; keep it for a retry if the server shuts down."""
        if self.has_left and not parsed.background:
            await in_db(runs.cancel_run, run_id, reason="The client left.")
        elif self.is_restarting:
            await in_db(sdk_retries.store_cut, self._digest, run_id)

    async def wait_for_end(self, request: AcceptedRequest) -> SessionEvent | None:
        """Return the last event of `run_events`; None after KOMAND_OPENAI_WAIT_SECONDS."""
        accepted, last = request.accepted, None
        try:
            async with asyncio.timeout(settings.KOMAND_OPENAI_WAIT_SECONDS):
                async for events in self.run_events(accepted.session_id, accepted.run_id, request.cursor):
                    last = events[-1]
                return last
        except TimeoutError:
            return None

    async def send_timeout(self) -> None:
        message = "The answer took too long. Its run continues; use background mode to fetch such an answer later."
        await self.send_json(504, errors.error(message, "server_error", "timeout"), _NO_RETRY)


class ChatCompletions(_NewAnswer):
    """POST /v1/chat/completions."""

    respond = Operation(
        "Create a chat completion",
        body=COMPLETION_BODY,
        answers={200: Answer(_EITHER, ref("ChatCompletion"))},
        **_CREATES,
        description="Closing the connection stops the run.",
    )(_NewAnswer.respond)

    def read(self, body: bytes) -> ParsedRequest:
        return read_completion(clean(parse_json(body)))

    async def answer(self, parsed: ParsedRequest, request: AcceptedRequest) -> None:
        is_structured = request.output_schema is not None
        completion = Completion(request.accepted.run_id, parsed.model, request.created, is_structured=is_structured)
        headers = {"X-Komand-Session": request.accepted.session_key}
        if parsed.stream:
            await self._stream(parsed, request, completion, headers)
        else:
            await self._send_whole(request, completion, headers)

    async def _send_whole(self, request: AcceptedRequest, completion: Completion, headers: dict[str, str]) -> None:
        last = await self.wait_for_end(request)
        if last is None:
            await self.send_timeout()
            return
        transcript, cited, _ = await in_db(_read, request.accepted.run_id)
        text, citations = full_text(transcript, cited)
        if last.type == INPUT_REQUESTED.name:
            text = "\n\n".join(filter(None, [text, INPUT_REQUESTED.payload(last)["question"]]))
        elif problem := errors.problem_of(transcript.run):
            await self.send_json(http_status_of(transcript.run), problem, {**headers, **_NO_RETRY})
            return
        await self.send_json(200, completion.whole(text, transcript, citations), headers)

    async def _stream(
        self, parsed: ParsedRequest, request: AcceptedRequest, completion: Completion, headers: dict[str, str]
    ) -> None:
        await self.open_stream(headers)
        await self._send([completion.begin()])
        accepted = request.accepted
        async for events in self.run_events(accepted.session_id, accepted.run_id, request.cursor):
            chunks = [chunk for event in events for chunk in completion.see(event)]
            if events[-1].type == INPUT_REQUESTED.name:
                chunks.append(completion.add_paragraph(INPUT_REQUESTED.payload(events[-1])["question"]))
            await self._send(chunks)
        transcript = await in_db(agents.get_transcript, accepted.run_id)
        if problem := errors.problem_of(transcript.run):
            await self._send([problem])
        else:
            answer = completion.is_structured and transcript.answer
            whole = [completion.add_paragraph(answer)] if answer else []
            usage = [completion.usage(transcript)] if parsed.include_usage else []
            await self._send([*whole, completion.finish(finish_reason(transcript)), *usage])
        await self.send_event("[DONE]")
        await self.close_stream()

    async def _send(self, chunks: list[dict[str, Any]]) -> None:
        if chunks:
            await self.send_text("".join(event_text(as_json(chunk)) for chunk in chunks))


class Responses(_NewAnswer):
    """POST /v1/responses."""

    respond = Operation(
        "Create a response",
        body=RESPONSE_BODY,
        answers={200: Answer(_EITHER, ref("Response"))},
        **_CREATES,
        description="Closing the connection stops the run, unless `background` is true.",
    )(_NewAnswer.respond)

    def read(self, body: bytes) -> ParsedRequest:
        return read_response(resolve_references(self.principal.user, clean(parse_json(body))))

    async def answer(self, parsed: ParsedRequest, request: AcceptedRequest) -> None:
        options = replace(parsed.options, output_schema=request.output_schema)
        context = ResponseContext(request.accepted.run_id, parsed.model, request.created, options)
        if parsed.stream:
            await _stream_response(self, context, request.accepted.session_id, request.cursor)
        elif parsed.background:
            await self.send_json(200, responses.response(context, "queued", []))
        elif await self.wait_for_end(request) is None:
            await self.send_timeout()
        else:
            stored = await in_db(_read, request.accepted.run_id)
            await self.send_json(200, responses.of_transcript(context, *stored))


class StoredResponse(_Endpoint):
    """GET /v1/responses/<id>: as stored, or with `?stream=true` its events after `starting_after`. DELETE."""

    methods = ("GET", "DELETE")

    @Operation(
        "Read a response",
        streams=True,
        answers={200: Answer(_EITHER, ref("Response"))},
        parameters=[
            Parameter("stream", "Return its events.", one_of(["true", "false"])),
            Parameter("starting_after", "Return the events after this sequence number.", COUNT),
        ],
        description="Current state of the response, or its events after `starting_after`.",
    )
    async def get(self, body: bytes) -> None:
        context, stored = await in_db(load, await self._run_id())
        if self.request.GET.get("stream", "") not in ("true", "1"):
            await self.send_json(200, responses.of_transcript(context, *stored))
            return
        await _stream_response(self, context, stored[0].run.conversation_id, "", after=self._after())

    @Operation(
        "Delete the conversation of a response",
        ref("ResponseDeleted"),
        description="Deletes all turns of the conversation.",
    )
    async def delete(self, body: bytes) -> None:
        await in_db(_delete, self.principal.user, await self._run_id())
        await self.send_json(200, {"id": self._response_id, "object": "response", "deleted": True})

    @property
    def _response_id(self) -> str:
        return str(self.scope["url_route"]["kwargs"]["response_id"])

    async def _run_id(self) -> UUID:
        return await in_db(run_of, self.principal.user, self._response_id)

    def _after(self) -> int:
        given = self.request.GET.get("starting_after", "")
        if not given:
            return -1
        if not (given.isdecimal() and given.isascii() and len(given) < 18):
            raise invalid_param("starting_after must be a sequence number.", "starting_after")
        return int(given)


class CancelledResponse(_Endpoint):
    """POST /v1/responses/<id>/cancel: stops the run and answers with its end. Idempotent."""

    methods = ("POST",)
    media_types = ()  # it has no body

    @Operation("Cancel a response", ref("Response"))
    async def respond(self, body: bytes) -> None:
        run_id = await in_db(run_of, self.principal.user, str(self.scope["url_route"]["kwargs"]["response_id"]))
        await in_db(runs.cancel_run, run_id, reason="Cancelled by the client.")
        context, stored = await in_db(load, run_id)
        if await wait_until_ended(stored[0].run.conversation_id, run_id, _CANCEL_SECONDS):
            stored = await in_db(_read, run_id)
        whole = responses.of_transcript(context, *stored)
        await self.send_json(200, whole if stored[0].run.status.is_terminal else {**whole, "status": "cancelled"})


async def _stream_response(
    endpoint: _Endpoint, context: ResponseContext, session_id: UUID, cursor: str, *, after: int = -1
) -> None:
    """Send a run as the events of a response, to its end. after: the last sequence number that the client has."""
    projection = ResponseEvents(context, after)

    async def send(events: list[dict[str, Any]]) -> None:
        if events:
            await endpoint.send_text("".join(event_text(as_json(event), event=event["type"]) for event in events))

    await endpoint.open_stream()
    await send(projection.begin())
    async for seen in endpoint.run_events(session_id, context.run_id, cursor, with_dead_claims=has_text(after)):
        await send([event for each in seen for event in projection.see(each)])
    await send(projection.end(responses.of_transcript(context, *await in_db(_read, context.run_id))))
    await endpoint.close_stream()


_Stored = tuple[RunTranscript, CitedByStep, tuple[ApprovalView, ...]]


def load(run_id: UUID) -> tuple[ResponseContext, _Stored]:
    """Return a stored response: its context, and what `_read` returns. Synchronous."""
    stored, options = _read(run_id), agents.get_options(run_id)
    run = stored[0].run
    return ResponseContext(run_id, run.agent_id, int(run.created_at.timestamp()), options), stored


def _read(run_id: UUID) -> _Stored:
    """Return the run's transcript, the citations of each step, and the approvals that its workstreams wait for."""
    transcript = agents.get_transcript(run_id)
    asked: tuple[ApprovalView, ...] = ()
    if transcript.run.waiting_on is WaitingOn.CHILDREN:
        asked = tools.list_approvals(status="pending", session_ids=[transcript.run.conversation_id])
    return transcript, selectors.citations_by_step(run_id), asked


def _delete(user: Any, run_id: UUID) -> None:
    """Delete the whole conversation of the run: without the turns of one response it would have a gap."""
    services.delete_session(access_session(user, agents.get_run(run_id).conversation_id))


routes = [
    path("v1/chat/completions", ChatCompletions.as_asgi()),
    path("v1/responses", Responses.as_asgi()),
    path("v1/responses/<str:response_id>", StoredResponse.as_asgi()),
    path("v1/responses/<str:response_id>/cancel", CancelledResponse.as_asgi()),
]
