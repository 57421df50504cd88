"""The consumers of this surface: the webhook, which waits for its answer, and the chat."""

from typing import Any

from django.conf import settings
from django.urls import path

from agents_app.types import RunStatus
from audit_app.kernel.database import in_db
from sessions_app.live_view.viewer import wait_until_ended
from sessions_app.services import Accepted
from sessions_app.surfaces.base.bodies import parse_json
from sessions_app.surfaces.base.consumers import MessageConsumer
from sessions_app.surfaces.base.openapi.operations import STOP_ON_DISCONNECT, Answer, Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import TEXT
from sessions_app.surfaces.base.run_errors import http_status_of
from sessions_app.surfaces.zeroclaw import commands, queries
from sessions_app.surfaces.zeroclaw.chat_socket import ChatSocket
from sessions_app.surfaces.zeroclaw.openapi import WEBHOOK_ANSWER
from sessions_app.surfaces.zeroclaw.requests import LONGEST_KEY, WebhookBody, read_key
from sessions_app.surfaces.zeroclaw.waiting_calls import EventFeed, JobRun

_AGENT = Parameter("agent", "Public id of the agent that answers.", TEXT)
_SESSION = Parameter("X-Session-Id", "Keeps requests in one conversation.", {**TEXT, "maxLength": 128}, where="header")
_KEY = Parameter(
    "X-Idempotency-Key",
    "A repetition with the same key and message runs nothing, and is answered with `duplicate`.",
    {**TEXT, "maxLength": LONGEST_KEY},
    where="header",
)
_DUPLICATE = "The message was received under this key before. Its answer is in the session."


class Webhook(MessageConsumer):
    """POST /webhook: a message, and the answer of the agent."""

    methods = ("POST",)

    @Operation(
        "Send a message and wait for its answer",
        body=WebhookBody,
        parameters=[_AGENT, _SESSION, _KEY, STOP_ON_DISCONNECT],
        errors=[402, 404, 409, 422, 502, 504],
        answers={200: Answer("The answer, or that the message was received before.", WEBHOOK_ANSWER)},
        streams=True,
        description="Waits up to KOMAND_WAIT_SECONDS; the run continues after that, and its answer is in the session.",
    )
    async def respond(self, body: bytes) -> None:
        accepted = await self.store(self._accept, body)
        named = {"session_id": str(accepted.session_id), "run_id": str(accepted.run_id)}
        if accepted.is_duplicate:
            await self.send_json(200, {"status": "duplicate", "idempotent": True, "message": _DUPLICATE, **named})
            return
        if not await wait_until_ended(accepted.session_id, accepted.run_id, settings.KOMAND_WAIT_SECONDS):
            problem = f"There was no answer within {settings.KOMAND_WAIT_SECONDS} seconds. The run continues."
            await self.send_json(504, {"error": problem, "code": "timeout", **named})
            return
        run = await in_db(queries.read_run, accepted.run_id)
        if run.status is not RunStatus.COMPLETED:
            failure = {"error": run.error_message or "The run was stopped.", "code": run.error_code or run.status.value}
            await self.send_json(http_status_of(run), {**failure, **named})
            return
        answer = await in_db(queries.read_answer, accepted.run_id)
        await self.send_json(200, {"response": answer["full_response"], "model": answer["model"], **named})

    def _accept(self, body: bytes) -> Accepted:
        fields, headers = WebhookBody.read(parse_json(body)), self.request.headers
        key = read_key(headers.get("X-Idempotency-Key", ""))
        agent_id, session_id = self.request.GET.get("agent", ""), headers.get("X-Session-Id", "")
        accepted = commands.send_webhook(self.principal, agent_id, fields["message"], session_id, key)
        self.run_id = accepted.run_id
        return accepted


routes: list[Any] = [
    path("zeroclaw/webhook", Webhook.as_asgi()),
    path("zeroclaw/ws/chat", ChatSocket.as_asgi()),
    path("zeroclaw/api/events", EventFeed.as_asgi()),
    path("zeroclaw/api/cron/<str:task_id>/run", JobRun.as_asgi()),
]
