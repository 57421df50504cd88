"""Questions that are answered in the response itself: `/v1/agent/ask` in words, `/v1/agent/extract` as JSON.

Each is a conversation of its own, kept apart from those of the chat page. A client that leaves stops the run.
"""

import asyncio
import json
import re
from typing import Any, ClassVar

from django.conf import settings
from jsonschema import Draft202012Validator, SchemaError
from rest_framework.serializers import Serializer

from agents_app import selectors as agents
from agents_app import services as runs
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
from sessions_app.surfaces.base.sse import EventStreamConsumer
from sessions_app.surfaces.threads import errors
from sessions_app.surfaces.threads.admission import admit
from sessions_app.surfaces.threads.commands import LANGUAGES, NAME
from sessions_app.surfaces.threads.requests import LONGEST_TEXT, AskBody, ExtractBody
from tools_app import schema as schemas
from tools_app.events import INPUT_REQUESTED

CHANNEL = "Api"
_STOPS = RUN_ENDS | {INPUT_REQUESTED.name}
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(?P<json>.*)\n\s*```\s*", re.DOTALL | re.IGNORECASE)
_AGAIN = "That answer cannot be used: {problem}. Answer once more, with nothing but JSON that fits the schema."


class _Asking(EventStreamConsumer):
    """One question, or two, to a session of its own."""

    methods = ("POST",)
    body_of: ClassVar[type[Serializer[Any]]]
    admit = staticmethod(admit)

    def limit(self) -> rate_limits.Limit:
        return rate_limits.chat_limit()

    async def respond(self, body: bytes) -> None:
        fields = errors.checked(self.body_of(data=parse_json(body))).validated_data
        options = self.options_of(fields)
        session = await in_db(self._open, fields["agent_id"])
        try:
            async with asyncio.timeout(settings.KOMAND_ASK_SECONDS):
                answer = await self.answer(session, fields["prompt"], options)
        except TimeoutError:
            await in_db(_stop, session, "It took too long.")
            raise errors.TookTooLong from None
        except asyncio.CancelledError:
            # Whoever left, nobody can ever fetch the answer.
            why = "The client left." if self.has_left else "The server restarted."
            await asyncio.shield(in_db(_stop, session, why))
            raise
        await self.send_json(200, answer)

    def options_of(self, fields: dict[str, Any]) -> RunOptions:
        """What is asked of the runs. Raises what is wrong with the request."""
        raise NotImplementedError

    async def answer(self, session: Session, prompt: str, options: RunOptions) -> dict[str, Any]:
        """The body of the response."""
        raise NotImplementedError

    async def ask(self, session: Session, text: str, options: RunOptions) -> str:
        """What the agent says to this. A question of its own is its answer: nobody is there to be asked.

        Raises Unanswered, Conflict when the run was stopped.
        """
        # `respond` stops the run of a request that is cancelled, so the run has to be there by then.
        accepted, cursor = await store_message(_send, session, text, options, finish_on_cancel=True)
        async for frame in self.watch(session.id, cursor):
            for fact in frame:
                if fact.run_id == accepted.run_id and fact.type in _STOPS:
                    transcript = await in_db(agents.get_transcript, accepted.run_id)
                    asked = fact.payload["question"] if fact.type == INPUT_REQUESTED.name else ""
                    if asked:
                        await in_db(runs.cancel_run, accepted.run_id, reason="Nobody is there to be asked.")
                    return _words_of(transcript, asked)
        raise errors.Unanswered("Watching the run broke off.")

    def _open(self, agent_id: str) -> Session:
        access_agent(self.principal.user, agent_id)
        return services.open_session(owner=self.principal.user, agent_id=agent_id, channel=CHANNEL, metadata={NAME: {}})


class AgentAsk(_Asking):
    """POST /v1/agent/ask."""

    body_of = AskBody

    def options_of(self, fields: dict[str, Any]) -> RunOptions:
        return RunOptions(instructions=LANGUAGES.get(fields["output_language"] or "", ""))

    async def answer(self, session: Session, prompt: str, options: RunOptions) -> dict[str, Any]:
        return {"text": await self.ask(session, prompt, options)}


class AgentExtract(_Asking):
    """POST /v1/agent/extract."""

    body_of = ExtractBody

    def options_of(self, fields: dict[str, Any]) -> RunOptions:
        if (fields["schema_path_part_id"] is None) == (fields["output_schema"] is None):
            raise errors.Unprocessable("Give either output_schema or schema_path_part_id.")
        if fields["schema_path_part_id"]:
            raise NotFound("There is no such document.")
        return RunOptions(output_schema=usable_schema(fields["output_schema"]))

    async def answer(self, session: Session, prompt: str, options: RunOptions) -> dict[str, Any]:
        schema = options.output_schema or {}
        value, problem = read_answer(await self.ask(session, prompt, options), schema)
        if problem:
            again = await self.ask(session, _AGAIN.format(problem=problem), options)
            value, problem = read_answer(again, schema)
        if problem:
            raise errors.Unprocessable(f"The agent gave no answer that fits the schema, twice: {problem}.")
        return {"structured": value}


def usable_schema(schema: Any) -> dict[str, Any]:
    """The JSON Schema of an object, fit to be evaluated here. Raises InvalidInput."""
    try:
        Draft202012Validator.check_schema(schema)
        fitted = schemas.fit_foreign(schema)
    except SchemaError as error:
        raise InvalidInput(f"output_schema is no JSON Schema: {error.message[:300]}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"output_schema cannot be used: {error}") from None
    if not isinstance(fitted, dict) or fitted.get("type", "object") != "object":
        raise InvalidInput("output_schema is the schema of an object.")
    return fitted


def read_answer(text: str, schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """(the object that an answer is, or none; what is wrong with it, for the model to mend)."""
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(fenced["json"] if fenced else text)
    except (ValueError, RecursionError) as error:
        return {}, f"it is not valid JSON: {error}"
    if not isinstance(value, dict):
        return {}, "it is not a JSON object"
    return value, schemas.find_problems(value, schema)


def _words_of(transcript: RunTranscript, asked: str) -> str:
    run = transcript.run
    if not asked and run.status is RunStatus.CANCELLED:
        raise Conflict("The run was cancelled.")
    if not asked and run.status is not RunStatus.COMPLETED:
        raise errors.Unanswered(run.error_message or "The agent failed.")
    return asked or transcript.answer.strip()


def _send(session: Session, text: str, options: RunOptions) -> tuple[Accepted, str]:
    cursor = cursor_now(session.id)
    conditions = services.ReceiveOptions(run=options, longest_text=LONGEST_TEXT)
    message = NewMessage.into(session, text)
    accepted = services.receive(message, owner=session.owner, session=session, options=conditions)
    return accepted, cursor


def _stop(session: Session, why: str) -> int:
    return services.cancel_session_runs(session, reason=why)
