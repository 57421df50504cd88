"""Prompts that are answered in the response: `/v1/agent/ask` with text, `/v1/agent/extract` with JSON.

Each is a conversation of its own, which the chat page does not list. A client that leaves stops the run.
"""

import asyncio
from abc import abstractmethod
from typing import Any

from django.conf import settings

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app import structured_output
from agents_app.events import RUN_ENDS
from agents_app.types import RunOptions, RunStatus, RunTranscript
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from sessions_app import services
from sessions_app.access import access_agent
from sessions_app.identity import rate_limits
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Session
from sessions_app.services import Accepted, NewMessage
from sessions_app.surfaces.base.bodies import parse_json
from sessions_app.surfaces.base.intake_limit import store_message
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Operation
from sessions_app.surfaces.base.openapi.schemas import OBJECT, TEXT, record
from sessions_app.surfaces.base.sse import EventStreamConsumer
from sessions_app.surfaces.threads import errors
from sessions_app.surfaces.threads.admission import admit
from sessions_app.surfaces.threads.commands import LANGUAGES, NAME
from sessions_app.surfaces.threads.requests import LONGEST_TEXT, AskBody, ExtractBody
from tools_app.events import INPUT_REQUESTED

CHANNEL = "Api"
_WAITS: dict[str, Any] = {"streams": True, "errors": [404, 409, 502, 504], "parameters": [IDEMPOTENCY_KEY]}


class _DirectAnswer(EventStreamConsumer):
    """Base of both endpoints: sends a prompt to a new session and waits for the answer."""

    methods = ("POST",)
    admit = staticmethod(admit)

    def limit(self) -> rate_limits.Limit:
        return rate_limits.chat_limit()

    async def respond(self, body: bytes) -> None:
        fields = errors.checked(self.operation.body(data=parse_json(body))).validated_data
        options = self.options_of(fields)
        session = await in_db(self._open, fields["agent_id"])
        try:
            async with asyncio.timeout(settings.KOMAND_ASK_SECONDS):
                answer = await self.answer(session, fields["prompt"], options)
        except TimeoutError:
            await in_db(_stop, session, "The answer took too long.")
            raise errors.TookTooLong from None
        except asyncio.CancelledError:
            # In each case, no client can fetch the answer later.
            why = "The server restarted." if self.is_restarting else "The client left."
            why = "The access of the client has ended." if self.is_refused else why
            await asyncio.shield(in_db(_stop, session, why))
            raise
        await self.send_json(200, answer)

    @abstractmethod
    def options_of(self, fields: dict[str, Any]) -> RunOptions:
        """Return the options of the runs. Raises AppError or APIException if the request is invalid."""

    @abstractmethod
    async def answer(self, session: Session, prompt: str, options: RunOptions) -> dict[str, Any]:
        """Return the body of the response."""

    async def ask(self, session: Session, text: str, options: RunOptions) -> str:
        """Return the agent's answer to a text. A question of the agent counts as its answer: no user can answer it.

        Raises Unanswered, or Conflict if the run was stopped.
        """
        # `respond` stops the run of a request that is cancelled, so the run must be stored by then.
        accepted, cursor = await store_message(_send, session, text, options, finish_on_cancel=True)
        async for frame in self.watch(session.id, cursor):
            for event in frame:
                if event.run_id == accepted.run_id and event.type == INPUT_REQUESTED.name:
                    await in_db(runs.cancel_run, accepted.run_id, reason="No user can answer a question here.")
                    return INPUT_REQUESTED.payload(event)["question"]
                if event.run_id == accepted.run_id and event.type in RUN_ENDS:
                    return _answer_of(await in_db(agents.get_transcript, accepted.run_id))
        raise errors.Unanswered("The server stopped watching the run before it ended.")

    def _open(self, agent_id: str) -> Session:
        access_agent(self.principal.user, agent_id)
        return services.open_session(owner=self.principal.user, agent_id=agent_id, channel=CHANNEL, metadata={NAME: {}})


class AgentAsk(_DirectAnswer):
    """POST /v1/agent/ask."""

    respond = Operation("Send one message to an agent", record({"text": TEXT}), body=AskBody, **_WAITS)(
        _DirectAnswer.respond
    )

    def options_of(self, fields: dict[str, Any]) -> RunOptions:
        return RunOptions(instructions=LANGUAGES.get(fields["output_language"] or "", ""))

    async def answer(self, session: Session, prompt: str, options: RunOptions) -> dict[str, Any]:
        return {"text": await self.ask(session, prompt, options)}


class AgentExtract(_DirectAnswer):
    """POST /v1/agent/extract."""

    respond = Operation(
        "Get an answer that matches a schema", record({"structured": OBJECT}), body=ExtractBody, **_WAITS
    )(_DirectAnswer.respond)

    def options_of(self, fields: dict[str, Any]) -> RunOptions:
        if (fields["schema_path_part_id"] is None) == (fields["output_schema"] is None):
            raise errors.Unprocessable("Send either output_schema or schema_path_part_id.")
        if fields["schema_path_part_id"]:
            raise NotFound("There is no such document.")
        return RunOptions(output_schema=usable_schema(fields["output_schema"]))

    async def answer(self, session: Session, prompt: str, options: RunOptions) -> dict[str, Any]:
        value = structured_output.value_of(await self.ask(session, prompt, options))
        if not isinstance(value, dict):  # a question of the agent
            raise errors.Unprocessable("The agent asked a question instead of answering with JSON.")
        return {"structured": value}


def usable_schema(schema: Any) -> dict[str, Any]:
    """Return a client's JSON Schema as one of an object. Raises InvalidInput."""
    checked = structured_output.check_schema(schema)
    if checked.get("type", "object") != "object":
        raise InvalidInput("output_schema must be the schema of an object.")
    return {"type": "object", **checked}


def _answer_of(transcript: RunTranscript) -> str:
    run = transcript.run
    if run.status is RunStatus.CANCELLED:
        raise Conflict("The run was cancelled.")
    if run.error_code == "invalid_output":
        raise errors.Unprocessable(run.error_message)
    if run.status is not RunStatus.COMPLETED:
        raise errors.Unanswered(run.error_message or "The agent failed.")
    return transcript.answer.strip()


def _send(session: Session, text: str, options: RunOptions) -> tuple[Accepted, str]:
    cursor = cursor_now(session.id)
    conditions = services.ReceiveOptions(run=options, longest_text=LONGEST_TEXT)
    message = NewMessage.into(session, text)
    accepted = services.receive(message, owner=session.owner, session=session, options=conditions)
    return accepted, cursor


def _stop(session: Session, why: str) -> int:
    return services.cancel_session_runs(session, reason=why)
