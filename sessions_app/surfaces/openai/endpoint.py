"""The base of the endpoints that answer with a run, and a run as the events of a response."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

from agents_app import selectors as agents
from agents_app.events import RUN_ENDS
from agents_app.types import RunTranscript, WaitingOn
from audit_app.kernel.database import in_db
from audit_app.kernel.json_text import as_json
from sessions_app import selectors
from sessions_app.conversation.workstreams import name_of_asker
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.http_errors import HttpError
from sessions_app.surfaces.base.sse import EventStreamConsumer
from sessions_app.surfaces.openai import responses
from sessions_app.surfaces.openai.annotations import CitedByStep
from sessions_app.surfaces.openai.commands import AcceptedRequest
from sessions_app.surfaces.openai.projection_responses import ResponseEvents, has_text
from sessions_app.surfaces.openai.requests import NAME, ParsedRequest
from sessions_app.surfaces.openai.responses import AskedApproval, AskedQuestion, ResponseContext
from tools_app import selectors as tools
from tools_app.events import CALLS_RETURNED, INPUT_REQUESTED
from tools_app.types.questions import text_of

# Events after which the client has to act, or nothing follows.
_LAST = (*RUN_ENDS, INPUT_REQUESTED.name, CALLS_RETURNED.name)


class AnswerEndpoint(EventStreamConsumer):
    """Base of all endpoints: may stream the answer of a run."""

    is_endless = True  # an answer may wait for an approval

    async def break_off(self, failure: HttpError) -> None:
        """Send the error as the last event: clients take a stream that merely ends for a complete answer."""
        await self.send_event(as_json(self.error_body(failure)), event="error")
        await super().break_off(failure)

    async def run_events(
        self, session_id: UUID, run_id: UUID, cursor: str, *, first_step: int = 0, with_dead_claims: bool = False
    ) -> AsyncIterator[list[SessionEvent]]:
        """Yield the events of the run until it ends, waits for the user's answer to a question or calls the client.

        Those that wait at the same time come together, so that they are written together.
        first_step: leave out the events of the steps before.
        with_dead_claims: as for `Viewer`.
        """
        frames = self.watch(session_id, cursor, with_dead_claims=with_dead_claims)
        async for events in until_end(frames, run_id, first_step):
            if is_last(events[-1]):
                self.stops_on_disconnect = False  # the client may close when it has read the end
            yield events


def is_last(event: SessionEvent) -> bool:
    """Return whether nothing of a run follows, or only after the client has acted."""
    return event.type in _LAST


async def until_end(
    frames: AsyncIterator[list[SessionEvent]], run_id: UUID, first_step: int = 0
) -> AsyncIterator[list[SessionEvent]]:
    """Yield the events of a run among those of its session, as `AnswerEndpoint.run_events`."""
    async for frame in frames:
        own = (event for event in frame if event.run_id == run_id)
        events = [event for event in own if event.step is None or event.step >= first_step]
        for place, event in enumerate(events, start=1):
            if is_last(event):
                yield events[:place]
                return
        if events:
            yield events


async def response_events(
    context: ResponseContext, run_events: AsyncIterator[list[SessionEvent]], after: int = -1
) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield a run as the events of a response, to its end; those that come together in one list.

    run_events: those of the run.
    after: the last sequence number that the client has.
    """
    projection = ResponseEvents(context, after)
    yield projection.begin()
    async for seen in run_events:
        yield [event for each in seen for event in projection.see(each)]
    yield projection.end(responses.of_transcript(context, *await in_db(read, context.run_id)))


async def stream_response(
    endpoint: AnswerEndpoint, context: ResponseContext, session_id: UUID, cursor: str, *, after: int = -1
) -> None:
    """Send a run as the events of a response, to its end. after: the last sequence number that the client has."""
    await endpoint.open_stream()
    seen_events = endpoint.run_events(
        session_id, context.run_id, cursor, first_step=context.first_step, with_dead_claims=has_text(after)
    )
    async for events in response_events(context, seen_events, after):
        await endpoint.send_values(events, name_field="type")
    await endpoint.close_stream()


def context_of(parsed: ParsedRequest, request: AcceptedRequest) -> ResponseContext:
    """Return what the response to a request repeats."""
    note = {**(parsed.options.note or {}).get(NAME, {}), "store": request.is_stored}
    options = replace(parsed.options, output_schema=request.output_schema, note={NAME: note})
    return ResponseContext(request.run_id, parsed.model, request.created, options, request.first_step)


Stored = tuple[RunTranscript, CitedByStep, tuple[AskedApproval, ...], AskedQuestion | None]


def load(run_id: UUID, first_step: int = 0) -> tuple[ResponseContext, Stored]:
    """Return a stored response: its context, and what `read` returns. Synchronous."""
    stored, options = read(run_id), agents.get_options(run_id)
    run = stored[0].run
    return ResponseContext(run_id, run.agent_id, int(run.created_at.timestamp()), options, first_step), stored


def read(run_id: UUID) -> Stored:
    """Return the run's transcript, the citations of each step, the approvals that its workstreams wait for, and the
    question that the next message answers, if the run or one of its workstreams has asked it.
    """
    transcript = agents.get_transcript(run_id)
    run, asked, question = transcript.run, tuple[AskedApproval, ...](), None
    if run.waiting_on in (WaitingOn.CHILDREN, WaitingOn.INPUT):
        # Workstreams of earlier answers may ask in the same session.
        tree = {run.id, *agents.list_descendant_ids(run.id)}
        pending = tools.list_approvals(status="pending", session_ids=[run.conversation_id])
        asked = tuple(AskedApproval(each, name_of_asker(each)) for each in pending if each.run_id in tree)
        found = tools.find_question(run.conversation_id)
        if found and found.run_id in tree:
            question = AskedQuestion(found.id, text_of(found.questions))
    return transcript, selectors.citations_by_step(run_id), asked, question
