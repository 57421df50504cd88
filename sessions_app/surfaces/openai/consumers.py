"""Consumers of new chat completions and responses, which wait or stream.

A client that closes its request stops the run, as it would stop a model, unless the request says otherwise; a
background response continues. So does a run whose request was cut because the server shut down. A client that retries
gets the answer of a run that continued.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Any

from django.conf import settings
from django.urls import path

from agents_app import selectors as agents
from audit_app.kernel.database import in_db
from sessions_app.conversation.citations import full_text
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.bodies import clean, parse_json
from sessions_app.surfaces.base.consumers import MessageConsumer
from sessions_app.surfaces.base.openapi.operations import EVENTS, IDEMPOTENCY_KEY, STOP_ON_DISCONNECT, Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import ref
from sessions_app.surfaces.base.run_errors import http_status_of
from sessions_app.surfaces.openai import errors, files, responses, sdk_retries
from sessions_app.surfaces.openai.body_schemas import COMPACT_BODY, COMPLETION_BODY, RESPONSE_BODY
from sessions_app.surfaces.openai.client_tools import part_from
from sessions_app.surfaces.openai.commands import AcceptedRequest, accept, accept_retry
from sessions_app.surfaces.openai.context_windows import begin_compaction, read_compaction
from sessions_app.surfaces.openai.direct_calls import Embeddings, Transcriptions
from sessions_app.surfaces.openai.endpoint import AnswerEndpoint, context_of, read, stream_response
from sessions_app.surfaces.openai.item_references import resolve_references
from sessions_app.surfaces.openai.projection_completions import Completion, finish_reason
from sessions_app.surfaces.openai.requests import ParsedRequest, read_completion, read_response, read_window
from sessions_app.surfaces.openai.response_socket import ResponseSocket
from sessions_app.surfaces.openai.stored_responses import CancelledResponse, StoredResponse
from sessions_app.surfaces.openai.window_consumers import InputTokens
from tools_app.events import INPUT_REQUESTED

# SDKs retry after a 409 and any 5xx, which would start a second run with all its side effects.
_NO_RETRY = {"X-Should-Retry": "false"}
_EITHER = f"Complete, or as {EVENTS} with `stream`."
_CREATES: dict[str, Any] = {
    "streams": True,
    "parameters": [IDEMPOTENCY_KEY, STOP_ON_DISCONNECT],
    "errors": [404, 409, 422, 502, 504],
}


class _NewAnswer(MessageConsumer, AnswerEndpoint):
    """Base of both protocols: stores the request as a message and follows its run."""

    methods = ("POST",)
    stops_on_disconnect = True
    _parsed: ParsedRequest

    async def respond(self, body: bytes) -> None:
        """Store the request of this body as a message and answer it."""
        try:
            request = await self.store(self._accept, body, finish_on_cancel=True)
            await self.answer(self._parsed, request)
        except asyncio.CancelledError:
            continues = self.is_restarting or (self.has_left and not self.stops_on_disconnect)
            if continues and self.run_id is not None:  # a client that retries gets its answer
                await asyncio.shield(in_db(sdk_retries.store_cut, self._digest, self.run_id))
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
        retry = None if key or self._parsed.outputs else self._accept_retry()  # outputs name their run
        request = retry or self.begin(key)
        self.run_id = request.run_id
        self.stops_on_disconnect = self.stops_on_disconnect and not self._parsed.background
        return request

    def begin(self, idempotency_key: str) -> AcceptedRequest:
        """Store the request and queue its run. Synchronous."""
        return accept(self.principal, self._parsed, idempotency_key)

    def _accept_retry(self) -> AcceptedRequest | None:
        if self.request.headers.get(sdk_retries.RETRY_COUNT, "0") == "0":
            return None
        run_id = sdk_retries.pop_cut(self._digest)
        return None if run_id is None else accept_retry(self.principal.user, run_id)

    def events_of(self, request: AcceptedRequest) -> AsyncIterator[list[SessionEvent]]:
        """Return the `run_events` of the answer to a request."""
        return self.run_events(request.session_id, request.run_id, request.cursor, first_step=request.first_step)

    async def wait_for_end(self, request: AcceptedRequest) -> SessionEvent | None:
        """Return the last event of `run_events`; None after KOMAND_OPENAI_WAIT_SECONDS."""
        last = None
        try:
            async with asyncio.timeout(settings.KOMAND_OPENAI_WAIT_SECONDS):
                async for events in self.events_of(request):
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
        return read_completion(files.with_contents(self.principal.user, clean(parse_json(body)), "messages"))

    async def answer(self, parsed: ParsedRequest, request: AcceptedRequest) -> None:
        is_structured = request.output_schema is not None
        answer_id = responses.answer_id(request.run_id, request.first_step)
        completion = Completion(answer_id, parsed.model, request.created, is_structured=is_structured)
        headers = {"X-Komand-Session": request.session_key}
        if parsed.stream:
            await self._stream(parsed, request, completion, headers)
        else:
            await self._send_whole(request, completion, headers)

    async def _send_whole(self, request: AcceptedRequest, completion: Completion, headers: dict[str, str]) -> None:
        last = await self.wait_for_end(request)
        if last is None:
            await self.send_timeout()
            return
        transcript, cited, *_ = await in_db(read, request.run_id)
        part = part_from(transcript, request.first_step)
        text, citations = full_text(
            part.transcript, {step - request.first_step: found for step, found in cited.items()}
        )
        if last.type == INPUT_REQUESTED.name:
            text = "\n\n".join(filter(None, [text, INPUT_REQUESTED.payload(last)["question"]]))
        elif not part.calls and (problem := errors.problem_of(transcript.run)):
            await self.send_json(http_status_of(transcript.run), problem, {**headers, **_NO_RETRY})
            return
        await self.send_json(200, completion.whole(text, part, citations), headers)

    async def _stream(
        self, parsed: ParsedRequest, request: AcceptedRequest, completion: Completion, headers: dict[str, str]
    ) -> None:
        await self.open_stream(headers)
        await self.send_values([completion.begin()])
        async for events in self.events_of(request):
            chunks = [chunk for event in events for chunk in completion.see(event)]
            if events[-1].type == INPUT_REQUESTED.name:
                chunks.append(completion.add_paragraph(INPUT_REQUESTED.payload(events[-1])["question"]))
            await self.send_values(chunks)
        transcript = await in_db(agents.get_transcript, request.run_id)
        part = part_from(transcript, request.first_step)
        if not part.calls and (problem := errors.problem_of(transcript.run)):
            await self.send_values([problem])
        else:
            answer = completion.is_structured and part.transcript.answer
            whole = [completion.add_paragraph(answer)] if answer else []
            called = [completion.call(index, call) for index, call in enumerate(part.calls)]
            usage = [completion.usage(part)] if parsed.include_usage else []
            await self.send_values([*whole, *called, completion.finish(finish_reason(part)), *usage])
        await self.send_event("[DONE]")
        await self.close_stream()


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
        context = context_of(parsed, request)
        if parsed.stream:
            await stream_response(self, context, request.session_id, request.cursor)
        elif parsed.background:
            await self.send_json(200, responses.response(context, "queued", []))
        elif await self.wait_for_end(request) is None:
            await self.send_timeout()
        else:
            stored = await in_db(read, request.run_id)
            await self.send_json(200, responses.of_transcript(context, *stored))


class Compact(_NewAnswer):
    """POST /v1/responses/compact."""

    respond = Operation(
        "Compact a conversation",
        ref("CompactedResponse"),
        body=COMPACT_BODY,
        parameters=[STOP_ON_DISCONNECT],
        errors=[404, 409, 422, 502, 504],
        description="Returns the user's messages and an item with a summary, to be sent as the next input.",
    )(_NewAnswer.respond)

    def read(self, body: bytes) -> ParsedRequest:
        return read_window(resolve_references(self.principal.user, clean(parse_json(body))))

    def begin(self, idempotency_key: str) -> AcceptedRequest:
        return begin_compaction(self.principal, self._parsed)

    async def answer(self, parsed: ParsedRequest, request: AcceptedRequest) -> None:
        if await self.wait_for_end(request) is None:
            await self.send_timeout()
        elif compacted := await in_db(read_compaction, request):
            await self.send_json(200, compacted)
        else:
            run = await in_db(agents.get_run, request.run_id)
            message = run.error_message or "The model has written no summary that can be used."
            problem = errors.problem_of(run) or errors.error(message, "server_error", "compaction_failed")
            await self.send_json(http_status_of(run) if run.error_code else 502, problem, _NO_RETRY)


routes = [
    path("v1/chat/completions", ChatCompletions.as_asgi()),
    path("v1/responses", Responses.as_asgi()),
    path("v1/responses/input_tokens", InputTokens.as_asgi()),
    path("v1/responses/compact", Compact.as_asgi()),
    path("v1/embeddings", Embeddings.as_asgi()),
    path("v1/audio/transcriptions", Transcriptions.as_asgi()),
    path("v1/responses/<str:response_id>", StoredResponse.as_asgi()),
    path("v1/responses/<str:response_id>/cancel", CancelledResponse.as_asgi()),
    path("v1/responses", ResponseSocket.as_asgi()),
]
