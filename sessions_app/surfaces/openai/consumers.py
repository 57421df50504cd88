"""What waits or streams: chat completions and responses.

A client that leaves its request stops the run, as it would stop a model; a response in the background goes on, and so
does every run whose request was cut because the server ended: a client that asks again gets its answer.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from django.conf import settings
from django.urls import path

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.events import RUN_ENDS
from agents_app.types import RunStatus, RunTranscript
from audit_app.kernel.database import in_db
from sessions_app import selectors, services
from sessions_app.access import access_session
from sessions_app.conversation.citations import said
from sessions_app.identity import rate_limits
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.bodies import parse_json
from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.base.run_errors import http_status_of
from sessions_app.surfaces.base.sse import EventStreamConsumer
from sessions_app.surfaces.openai import errors, responses, sdk_retries
from sessions_app.surfaces.openai.annotations import CitedByStep
from sessions_app.surfaces.openai.chat_messages import refuse
from sessions_app.surfaces.openai.commands import AcceptedRequest, ask, ask_again, run_of
from sessions_app.surfaces.openai.projection_completions import Completion
from sessions_app.surfaces.openai.projection_responses import ResponseEvents
from sessions_app.surfaces.openai.requests import Question, read_completion, read_response
from sessions_app.surfaces.openai.responses import ResponseContext
from tools_app.events import INPUT_REQUESTED

# To SDKs, which would ask again after a 409 and any 5xx: that would be one more run, which does everything once more.
_AS_IT_IS = {"X-Should-Retry": "false"}


class _Endpoint(EventStreamConsumer):
    """What both protocols share: taking the question in, and following its run."""

    is_endless = True  # an answer may wait for a person
    _run_id: UUID | None = None

    def limit(self) -> rate_limits.Limit:
        return rate_limits.chat_limit()

    async def break_off(self, failure: HttpError) -> None:
        """A body that merely ended would be taken for a whole answer."""
        await self.send_event(_text(self.error_body(failure)), event="error")
        await super().break_off(failure)

    async def serve(self, question: Question, body: bytes) -> None:
        """Store the question of this body as a message and answer it."""
        self._digest = sdk_retries.digest_of(self.principal.user, self.scope["path"], body)
        try:
            await self.answer(question, await store_message(self._ask, question, finish_on_cancel=True))
        except asyncio.CancelledError:
            if self._run_id is not None:
                await asyncio.shield(self._end_early(self._run_id, question))
            raise

    async def answer(self, question: Question, asked: AcceptedRequest) -> None:
        """Send the response to a question that is stored."""
        raise NotImplementedError

    def _ask(self, question: Question) -> AcceptedRequest:
        asked = self._asked_again() or ask(self.principal, question, self.request.headers.get("Idempotency-Key", ""))
        self._run_id = asked.accepted.run_id
        return asked

    def _asked_again(self) -> AcceptedRequest | None:
        headers = self.request.headers
        if headers.get("Idempotency-Key", "") or headers.get(sdk_retries.RETRY_COUNT, "0") == "0":
            return None
        run_id = sdk_retries.take_up(self._digest)
        return None if run_id is None else ask_again(self.principal.user, run_id)

    async def facts(self, session_id: UUID, run_id: UUID, cursor: str) -> AsyncIterator[SessionEvent]:
        """What happens in the run, until it ends or asks its person something."""
        async for frame in self.watch(session_id, cursor):
            for fact in frame:
                if fact.run_id == run_id:
                    yield fact
                    if fact.type in RUN_ENDS or fact.type == INPUT_REQUESTED.name:
                        return

    async def wait(self, asked: AcceptedRequest) -> SessionEvent | None:
        """The fact that ends the wait; None when it took too long."""
        try:
            async with asyncio.timeout(settings.KOMAND_OPENAI_WAIT_SECONDS):
                accepted = asked.accepted
                facts = [fact async for fact in self.facts(accepted.session_id, accepted.run_id, asked.cursor)]
                return facts[-1] if facts else None
        except TimeoutError:
            return None

    async def _end_early(self, run_id: UUID, question: Question) -> None:
        """The request was cancelled: who left wants no more of the answer. When the server ends, the run goes on, for
        a client that asks again."""
        if self.has_left and not question.background:
            await in_db(runs.cancel_run, run_id, reason="The client left.")
        elif not self.has_left:
            await in_db(sdk_retries.note_cut, self._digest, run_id)

    async def send_timeout(self) -> None:
        message = "The answer took too long. It goes on; ask for it in the background to fetch it later."
        await self.send_json(504, errors.error(message, "server_error", "timeout"), _AS_IT_IS)


class ChatCompletions(_Endpoint):
    methods = ("POST",)

    async def respond(self, body: bytes) -> None:
        await self.serve(read_completion(parse_json(body)), body)

    async def answer(self, question: Question, asked: AcceptedRequest) -> None:
        completion = Completion(asked.accepted.run_id, question.model, asked.created)
        headers = {"X-Komand-Session": asked.accepted.session_key}
        if question.stream:
            await self._stream(question, asked, completion, headers)
        else:
            await self._answer(asked, completion, headers)

    async def _answer(self, asked: AcceptedRequest, answer: Completion, headers: dict[str, str]) -> None:
        last = await self.wait(asked)
        if last is None:
            await self.send_timeout()
            return
        transcript, cited = await in_db(_read, asked.accepted.run_id)
        text, citations = said(transcript, cited)
        if last.type == INPUT_REQUESTED.name:
            text = "\n\n".join(filter(None, [text, last.payload["question"]]))
        elif problem := problem_of(transcript):
            await self.send_json(http_status_of(transcript.run), problem, {**headers, **_AS_IT_IS})
            return
        await self.send_json(
            200, answer.whole(text, finish_reason(transcript), transcript.run.usage, citations), headers
        )

    async def _stream(
        self, question: Question, asked: AcceptedRequest, answer: Completion, headers: dict[str, str]
    ) -> None:
        await self.open_stream(headers)
        await self._send(answer.begin())
        async for fact in self.facts(asked.accepted.session_id, asked.accepted.run_id, asked.cursor):
            for chunk in answer.see(fact):
                await self._send(chunk)
            if fact.type == INPUT_REQUESTED.name:
                await self._send(answer.say(fact.payload["question"]))
        transcript = await in_db(agents.get_transcript, asked.accepted.run_id)
        if problem := problem_of(transcript):
            await self._send(problem)
        else:
            await self._send(answer.finish(finish_reason(transcript)))
            if question.tells_usage:
                await self._send(answer.usage(transcript.run.usage))
        await self.send_event("[DONE]")
        await self.close_stream()

    async def _send(self, chunk: dict[str, Any]) -> None:
        await self.send_event(_text(chunk))


class Responses(_Endpoint):
    """POST /v1/responses."""

    methods = ("POST",)

    async def respond(self, body: bytes) -> None:
        await self.serve(read_response(parse_json(body)), body)

    async def answer(self, question: Question, asked: AcceptedRequest) -> None:
        asking = ResponseContext(asked.accepted.run_id, question.model, asked.created, question.options)
        if question.stream:
            await stream_response(self, asking, asked.accepted.session_id, asked.cursor)
        elif question.background:
            await self.send_json(200, responses.response(asking, "queued", []))
        elif await self.wait(asked) is None:
            await self.send_timeout()
        else:
            told = await in_db(_read, asked.accepted.run_id)
            await self.send_json(200, responses.of_transcript(asking, *told))


class StoredResponse(_Endpoint):
    """GET /v1/responses/<id>: as it stands, or with `?stream=true` told from `starting_after` on."""

    methods = ("GET", "DELETE")

    def limit(self) -> rate_limits.Limit:
        return rate_limits.api_limit()

    async def respond(self, body: bytes) -> None:
        response_id = str(self.scope["url_route"]["kwargs"]["response_id"])
        run_id = await in_db(run_of, self.principal.user, response_id)
        if self.scope["method"] == "DELETE":
            await in_db(_delete, self.principal.user, run_id)
            await self.send_json(200, {"id": response_id, "object": "response", "deleted": True})
            return
        asking, transcript, cited = await in_db(load, run_id)
        if self.request.GET.get("stream", "") not in ("true", "1"):
            await self.send_json(200, responses.of_transcript(asking, transcript, cited))
            return
        await stream_response(self, asking, transcript.run.conversation_id, "", after=self._after())

    def _after(self) -> int:
        wanted = self.request.GET.get("starting_after", "")
        if not wanted:
            return -1
        if not (wanted.isdecimal() and wanted.isascii() and len(wanted) < 18):
            raise refuse("starting_after is a sequence number.", "starting_after")
        return int(wanted)


async def stream_response(
    endpoint: _Endpoint, asking: ResponseContext, session_id: UUID, cursor: str, *, after: int = -1
) -> None:
    """Tell a run as the events of a response, to its end."""
    events = ResponseEvents(asking, after)
    await endpoint.open_stream()
    for event in events.begin():
        await endpoint.send_event(_text(event), event=event["type"])
    async for fact in endpoint.facts(session_id, asking.run_id, cursor):
        for event in events.see(fact):
            await endpoint.send_event(_text(event), event=event["type"])
    for event in events.end(responses.of_transcript(asking, *await in_db(_read, asking.run_id))):
        await endpoint.send_event(_text(event), event=event["type"])
    await endpoint.close_stream()


def load(run_id: UUID) -> tuple[ResponseContext, RunTranscript, CitedByStep]:
    transcript, cited = _read(run_id)
    created = int(transcript.run.created_at.timestamp())
    return ResponseContext(run_id, transcript.run.agent_id, created, agents.get_options(run_id)), transcript, cited


def _read(run_id: UUID) -> tuple[RunTranscript, CitedByStep]:
    return agents.get_transcript(run_id), selectors.citations_by_step(run_id)


def finish_reason(transcript: RunTranscript) -> str:
    return "length" if transcript.run.error_code == "length" else "stop"


def problem_of(transcript: RunTranscript) -> dict[str, Any] | None:
    """The error of a run that ended badly."""
    run = transcript.run
    if run.status is RunStatus.COMPLETED or not run.status.is_terminal:
        return None
    code = run.error_code or run.status.value
    return errors.error(run.error_message or "The run failed.", "server_error", code)


def _delete(user: Any, run_id: UUID) -> None:
    """With its conversation, which is all there is to delete: turns of one response alone would leave gaps."""
    services.delete_session(access_session(user, agents.get_run(run_id).conversation_id))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


routes = [
    path("v1/chat/completions", ChatCompletions.as_asgi()),
    path("v1/responses", Responses.as_asgi()),
    path("v1/responses/<str:response_id>", StoredResponse.as_asgi()),
]
