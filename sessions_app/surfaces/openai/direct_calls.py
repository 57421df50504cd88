"""Consumers of calls of other models than those that answer: those for embeddings and transcriptions."""

import asyncio
from dataclasses import replace

from django.contrib.auth.models import User

from agents_app import direct_calls
from agents_app.direct_calls import DirectCall
from agents_app.errors import ModelFailed
from agents_app.models import Agent
from agents_app.types.embeddings import EmbeddingRequest
from agents_app.types.embeddings import Embeddings as Vectors
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import NotFound
from sessions_app.access import access_agent, find_agents
from sessions_app.identity import rate_limits
from sessions_app.surfaces.base.bodies import clean, parse_json
from sessions_app.surfaces.base.consumers import LiveConsumer, json_body
from sessions_app.surfaces.base.forms import MULTIPART, read_form
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import ref
from sessions_app.surfaces.openai import embeddings, transcriptions
from sessions_app.surfaces.openai.body_schemas import EMBEDDING_BODY, TRANSCRIPTION_BODY


def find_agent(user: User, name: str, setting: str) -> Agent:
    """Return the agent of this id, or the first one whose provider has this model by the setting. Raises NotFound."""
    try:
        return access_agent(user, name)
    except NotFound:
        found = find_agents(user).filter(**{f"provider__{setting}": name}).first()
        if found is None:
            raise
        return found


class DirectCallConsumer(LiveConsumer):
    """Base: one call, limited as messages are, and charged to an agent and the user."""

    methods = ("POST",)

    def limit(self) -> rate_limits.Limit:
        return rate_limits.chat_limit()

    def admit_call(self, name: str, setting: str, what: str) -> DirectCall:
        """Return the call that a request asks for. Synchronous.

        name: of an agent or a model.
        setting: the column of the provider that names the model.
        what: what the model is for, as in an error.
        Raises NotFound, InvalidInput (unsupported_model), and what `direct_calls.admit` raises.
        """
        agent = find_agent(self.principal.user, name, setting)
        model = getattr(agent.provider, setting)
        if not model:
            message = (
                f"The agent {agent.agent_id!r} has no model for {what}: its model provider names none. "
                f"An operator can set one in the admin."
            )
            raise invalid_param(message, "model", "unsupported_model")
        return direct_calls.admit(agent, self.principal.actor, model)


class Embeddings(DirectCallConsumer):
    """POST /v1/embeddings."""

    @Operation(
        "Create embeddings",
        ref("Embeddings"),
        body=EMBEDDING_BODY,
        errors=[402, 404, 502],
        description="By the embedding model of the agent's provider.",
    )
    async def respond(self, body: bytes) -> None:
        name, request = embeddings.read(clean(parse_json(body)))
        call = await in_db(self.admit_call, name, "embedding_model", "embeddings")
        request = replace(request, model=call.model)
        found = await direct_calls.embed(call, request)
        await self.send_whole(200, await asyncio.to_thread(_answer, request, found))


class Transcriptions(DirectCallConsumer):
    """POST /v1/audio/transcriptions."""

    media_types = ()  # a form, which `respond` reads

    @Operation(
        "Transcribe an audio file",
        body=TRANSCRIPTION_BODY,
        media_type=MULTIPART,
        answers={200: Answer("JSON, or the text alone as `response_format` says.", ref("Transcription"))},
        errors=[402, 404, 502],
        description="By the transcription model of the agent's provider.",
    )
    async def respond(self, body: bytes) -> None:
        form = await asyncio.to_thread(read_form, self._headers.get("content-type", ""), body)
        request = transcriptions.read(form)
        call = await in_db(self.admit_call, request.model, "transcription_model", "transcriptions")
        found = await direct_calls.transcribe(call, request.audio, request.options)
        answer, media_type = transcriptions.whole(request, found)
        await self.send_whole(200, answer, {"Content-Type": media_type})


def _answer(request: EmbeddingRequest, found: Vectors) -> bytes:
    """Return the body of an answer, which may have millions of numbers. Raises ModelFailed."""
    try:
        return json_body(embeddings.whole(request, found))
    except ValueError as error:
        raise ModelFailed("The server has sent a vector that cannot be read.") from error
