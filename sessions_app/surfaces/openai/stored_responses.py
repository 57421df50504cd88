"""Consumers of stored responses: reading, streaming again, deleting and cancelling them."""

from typing import Any
from uuid import UUID

from agents_app import selectors as agents
from agents_app import services as runs
from audit_app.kernel.database import in_db
from sessions_app import services
from sessions_app.access import access_session
from sessions_app.live_view.viewer import wait_until_ended
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.base.openapi.operations import EVENTS, Answer, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import COUNT, one_of, ref
from sessions_app.surfaces.openai import responses
from sessions_app.surfaces.openai.commands import run_of
from sessions_app.surfaces.openai.endpoint import AnswerEndpoint, load, read, stream_response
from sessions_app.surfaces.openai.requests import NAME

# A run's owner ends it within a second; a process that hangs must not keep the client waiting.
_CANCEL_SECONDS = 5


class StoredResponse(AnswerEndpoint):
    """GET /v1/responses/<id>: as stored, or with `?stream=true` its events after `starting_after`. DELETE."""

    methods = ("GET", "DELETE")

    @Operation(
        "Read a response",
        streams=True,
        answers={200: Answer(f"Complete, or as {EVENTS} with `stream`.", ref("Response"))},
        parameters=[
            Parameter("stream", "Return its events.", one_of(["true", "false"])),
            Parameter("starting_after", "Return the events after this sequence number.", COUNT),
        ],
        description="Current state of the response, or its events after `starting_after`.",
    )
    async def get(self, body: bytes) -> None:
        context, stored = await in_db(load, *await self._run_and_step())
        if self.request.GET.get("stream", "") not in ("true", "1"):
            await self.send_json(200, responses.of_transcript(context, *stored))
            return
        await stream_response(self, context, stored[0].run.conversation_id, "", after=self._after())

    @Operation(
        "Delete the conversation of a response",
        ref("ResponseDeleted"),
        errors=[400],
        description="Deletes all turns of the conversation.",
    )
    async def delete(self, body: bytes) -> None:
        run_id, _ = await self._run_and_step()
        await in_db(_delete, self.principal.user, run_id)
        await self.send_json(200, {"id": self._response_id, "object": "response", "deleted": True})

    @property
    def _response_id(self) -> str:
        return str(self.scope["url_route"]["kwargs"]["response_id"])

    async def _run_and_step(self) -> tuple[UUID, int]:
        return await in_db(run_of, self.principal.user, self._response_id)

    def _after(self) -> int:
        given = self.request.GET.get("starting_after", "")
        if not given:
            return -1
        if not (given.isdecimal() and given.isascii() and len(given) < 18):
            raise invalid_param("starting_after must be a sequence number.", "starting_after")
        return int(given)


class CancelledResponse(AnswerEndpoint):
    """POST /v1/responses/<id>/cancel: stops the run and answers with its end. Idempotent."""

    methods = ("POST",)
    media_types = ()  # it has no body

    @Operation("Cancel a response", ref("Response"))
    async def respond(self, body: bytes) -> None:
        response_id = str(self.scope["url_route"]["kwargs"]["response_id"])
        run_id, first_step = await in_db(run_of, self.principal.user, response_id)
        await in_db(runs.cancel_run, run_id, reason="Cancelled by the client.")
        context, stored = await in_db(load, run_id, first_step)
        if await wait_until_ended(stored[0].run.conversation_id, run_id, _CANCEL_SECONDS):
            stored = await in_db(read, run_id)
        whole = responses.of_transcript(context, *stored)
        await self.send_json(200, whole if stored[0].run.status.is_terminal else {**whole, "status": "cancelled"})


def _delete(user: Any, run_id: UUID) -> None:
    """Delete the whole conversation of the run: without the turns of one response it would have a gap.

    Raises InvalidInput (response_in_conversation) for a response of a conversation that the client has named.
    """
    note = (agents.get_options(run_id).note or {}).get(NAME, {})
    if conversation := note.get("conversation"):
        message = f"This response belongs to {conversation}: delete that, or messages from it."
        raise invalid_param(message, "response_id", "response_in_conversation")
    services.delete_session(access_session(user, agents.get_run(run_id).conversation_id))
