"""POST /api/webchat/message: stores a message and waits for its answer.

200: the answer. 202: `?wait=0`, `Prefer: respond-async` or `Prefer: wait=0` (RFC 7240, sections 4.1 and 4.3). 409: the
run was cancelled. 502: the model provider failed. 500: the run failed otherwise. 504: the wait is over, or the server
restarts; the run continues, `meta` names what it waits for, and its answer is stored in the session. `meta.runId` is
the run in every case. If the client disconnects, the run continues unless the request says otherwise.
"""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.urls import path

from agents_app import selectors as agents
from agents_app.structured_output import output_of
from agents_app.types import RunOptions, RunStatus, RunView
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import Forbidden, InvalidInput
from sessions_app import services
from sessions_app.access import access_session
from sessions_app.conversation.session_key import parse_key
from sessions_app.identity.principal import Principal
from sessions_app.live_view.viewer import wait_until_ended
from sessions_app.models import Session
from sessions_app.services import Accepted, NewMessage
from sessions_app.surfaces.base.bodies import parse_json
from sessions_app.surfaces.base.consumers import MessageConsumer
from sessions_app.surfaces.base.openapi.operations import (
    IDEMPOTENCY_KEY,
    STOP_ON_DISCONNECT,
    Answer,
    Operation,
    Parameter,
)
from sessions_app.surfaces.base.openapi.schemas import TEXT, UUID, record
from sessions_app.surfaces.base.run_errors import http_status_of
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.base.written_files import written_files
from sessions_app.surfaces.rest import envelope
from sessions_app.surfaces.rest.dictation import Dictation
from sessions_app.surfaces.rest.objects.messages import AcceptedOut, AnsweredOut, MessageBody, StructuredAnswerOut
from sessions_app.surfaces.rest.operations import envelope as envelope_schema

_WAIT = Parameter(
    "wait",
    "Seconds to wait, at most KOMAND_LONGEST_WAIT_SECONDS; 0 returns at once.",
    {"type": "integer", "minimum": 0},
)
_PREFER = Parameter(
    "Prefer",
    "`wait=<seconds>` waits so long, at most KOMAND_LONGEST_WAIT_SECONDS; `respond-async` alone returns at once. "
    "`Preference-Applied` in the answer names what was applied; the parameter `wait` comes first.",
    TEXT,
    where="header",
)
_MOST_DIGITS = 9  # of seconds
_ACCEPTED = Answer("The message is stored; the run continues.", envelope_schema(AcceptedOut, record({"runId": UUID})))


class WebChatMessage(MessageConsumer):
    methods = ("POST",)
    _applied: Mapping[str, str] = MappingProxyType({})  # headers that name the applied preference

    @Operation(
        "Send a message and wait for its answer",
        AnsweredOut,
        body=MessageBody,
        errors=[404, 409, 422, 502, 504],
        parameters=[IDEMPOTENCY_KEY, STOP_ON_DISCONNECT, _WAIT, _PREFER],
        answers={202: _ACCEPTED},
        streams=True,
        description="Waits up to 30 seconds, then returns 504 with the id of the run, which continues, its status, "
        "`waitingOn` and, if it is queued, `queuedBehind`. "
        "Closing the connection does not stop the run.",
    )
    async def respond(self, body: bytes) -> None:
        accepted, seconds = await self.store(self._accept, body)
        run_id = str(accepted.run_id)
        if seconds == 0:
            data = AcceptedOut.of(None, session_id=accepted.session_key, run_id=run_id)
            await self.send_json(202, envelope.success(data, {"runId": run_id}), self._applied)
        else:
            try:
                await self._wait(accepted, seconds)
            except asyncio.CancelledError:
                if self.is_restarting:
                    await self._send_unfinished(accepted, "restarting", "The server restarts; the run continues.")
                raise

    def _accept(self, body: bytes) -> tuple[Accepted, int]:
        """Receive the message. Return the seconds to wait, too."""
        seconds, self._applied = self._wait_seconds()
        key = self.request.headers.get("Idempotency-Key", "")
        accepted = accept_message(self.principal, parse_json(body), key)
        self.run_id = accepted.run_id
        return accepted, seconds

    async def _wait(self, accepted: Accepted, seconds: int) -> None:
        if await wait_until_ended(accepted.session_id, accepted.run_id, seconds):
            await self.send_json(*await in_db(_outcome_of, accepted), self._applied)
        else:
            state = await in_db(_state_of, accepted)
            await self._send_unfinished(accepted, "timeout", f"Request timed out after {seconds} seconds", state)

    async def _send_unfinished(
        self, accepted: Accepted, code: str, message: str, state: Mapping[str, Any] | None = None
    ) -> None:
        meta = {"runId": str(accepted.run_id), "sessionId": accepted.session_key, "code": code, **(state or {})}
        await self.send_json(504, envelope.failure(message, meta), self._applied)

    def _wait_seconds(self) -> tuple[int, dict[str, str]]:
        """Return the seconds to wait, by default KOMAND_WAIT_SECONDS, and the header that names an applied preference.

        A preference that cannot be met is ignored, as RFC 7240 says. Raises InvalidInput (invalid_wait) for a wrong
        parameter.
        """
        most: int = max(settings.KOMAND_WAIT_SECONDS, settings.KOMAND_LONGEST_WAIT_SECONDS)
        wanted = self.request.GET.get("wait", "")
        if wanted and _seconds(wanted, most) is None:
            raise InvalidInput(f"`wait` must be a number of seconds from 0 to {most}.", code="invalid_wait")
        if wanted:
            return int(wanted), {}
        items = [item.partition(";")[0].strip().lower() for item in self.request.headers.get("Prefer", "").split(",")]
        preferred = {name.strip(): value.strip() for name, _, value in (item.partition("=") for item in items)}
        seconds = _seconds(preferred.get("wait", "").strip('"'), most)
        if seconds is not None:
            return seconds, {"Preference-Applied": f"wait={seconds}"}
        if "respond-async" in preferred:
            return 0, {"Preference-Applied": "respond-async"}
        return int(settings.KOMAND_WAIT_SECONDS), {}


def _seconds(text: str, most: int) -> int | None:
    """Return the number of seconds that a text names, None if it names none up to `most`."""
    is_number = text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS
    return int(text) if is_number and int(text) <= most else None


def _state_of(accepted: Accepted) -> dict[str, Any]:
    """Return what an open run waits for, and the run behind which it is queued. Synchronous."""
    runs = agents.list_open_runs(accepted.session_id)
    place = next((place for place, run in enumerate(runs) if run.id == accepted.run_id), None)
    if place is None:
        return {}
    ahead = {"runId": str(runs[place - 1].id), **_waits(runs[place - 1])} if place else None
    return {**_waits(runs[place]), "queuedBehind": ahead}


def _waits(run: RunView) -> dict[str, Any]:
    return {"status": run.status.value, "waitingOn": run.waiting_on.value if run.waiting_on else None}


def accept_message(principal: Principal, body: Any, idempotency_key: str) -> Accepted:
    """Check the body and the sender, and receive the message. Synchronous. Raises what views raise."""
    fields = MessageBody.read(body)
    if not principal.may_send_as(fields["sender_id"]):
        raise Forbidden(
            "`senderId` is another user. Only API keys with the scope senders:any may write for other senders.",
            code="foreign_sender",
        )
    session = access_session(principal.user, fields["session_id"]) if fields["session_id"] else None
    if session is not None:
        _check_sender(principal, session, fields["sender_id"])
    inbound = NewMessage(
        channel=services.WEB_CHAT,
        account_id=fields["account_id"],
        sender_id=fields["sender_id"],
        sender_name=fields["display_name"] or "",
        text=fields["text"],
        note=_note_of(fields),
        attachments=tuple(fields["attachments"]),
    )
    return services.receive(
        inbound,
        owner=principal.user,
        session=session,
        agent_id=fields["agent_id"],
        idempotency_key=idempotency_key or fields["message_id"],
        options=services.ReceiveOptions(
            run=RunOptions(
                tools=fields["tools"],
                mcp_servers=fields["mcp_servers"],
                output_schema=fields["output_schema"],
                agent_version=fields["agent_version"],
            )
        ),
    )


def _note_of(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    sent_at = iso(fields["timestamp"])
    note = {"messageId": fields["message_id"], "metadata": fields["metadata"], "sentAt": sent_at}
    return {"message": {name: value for name, value in note.items() if value}} if any(note.values()) else None


def _check_sender(principal: Principal, session: Session, sender_id: str) -> None:
    is_own = principal.is_self(sender_id) and principal.is_self(session.sender_id)
    if sender_id != session.sender_id and not is_own:
        raise InvalidInput(
            f"The session belongs to the sender {session.sender_id!r}, not to {sender_id!r}.", code="sender_mismatch"
        )


def _outcome_of(accepted: Accepted) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of the answer for an ended run. Synchronous."""
    transcript = agents.get_transcript(accepted.run_id)
    run, run_id = transcript.run, str(accepted.run_id)
    if run.status is RunStatus.COMPLETED:
        place = parse_key(accepted.session_key)
        answer = {
            "session_id": accepted.session_key,
            "channel": place.channel,
            "recipient_id": place.sender_id,
            "text": transcript.answer,
            "timestamp": run.ended_at,
            # Only tools write files.
            "attachments": written_files(accepted.session_id, run.id) if transcript.executions else [],
        }
        output = output_of(transcript)
        data = (
            AnsweredOut.of(None, **answer) if output is None else StructuredAnswerOut.of(None, **answer, output=output)
        )
        return 200, envelope.success(data, {"runId": run_id})
    meta = {"runId": run_id, "sessionId": accepted.session_key, "code": run.error_code or run.status.value}
    return http_status_of(run), envelope.failure(run.error_message or "The run failed.", meta)


routes = [path("api/webchat/message", WebChatMessage.as_asgi()), path("api/transcriptions", Dictation.as_asgi())]
