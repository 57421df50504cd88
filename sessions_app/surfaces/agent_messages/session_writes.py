"""Writes of this surface to a session: messages of its own, notes of signals, and messages of the user."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from agents_app.runs.run_policy import policy_of_agent
from audit_app import services as audit
from audit_app.models import Event
from sessions_app import events, services
from sessions_app.conversation.sessions import event_about
from sessions_app.identity import rate_limits
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.services import Accepted, NewMessage
from sessions_app.surfaces.agent_messages import agent_runs, requests
from sessions_app.surfaces.agent_messages.wire_format import Compact
from tools_app import services as tools


def post_message(session: Session, message: Compact) -> None:
    """Store a message, in the caller's transaction or one of its own."""
    text, workstream = message.get("m", ""), message.get("w", "")
    payload = events.UpdatePosted(kind=message["t"], text=text, workstream=workstream, details=message.get("d"))
    with transaction.atomic():
        audit.emit([event_about(session, events.UPDATE_POSTED, payload)])


def note_signal(session: Session, run_id: UUID, signal: str, *, ack: str = "", reason: str = "") -> None:
    """Store the reason for which a run is about to end, so that its last message can give it."""
    payload: events.SignalReceived = {"signal": signal, "ack": ack, "reason": reason}
    with transaction.atomic():
        audit.emit([event_about(session, events.SIGNAL_RECEIVED, payload, run_id=run_id)])


def is_acknowledged(session: Session, ack: str) -> bool:
    """Return whether a posted message carries this client's id of a message."""
    posted = Event.objects.filter(session_id=session.id, type=events.UPDATE_POSTED.name)
    return posted.filter(payload__details__ack=ack).exists()


def is_signalled(session: Session, ack: str) -> bool:
    """Return whether a noted signal carries this client's id."""
    return Event.objects.filter(session_id=session.id, type=events.SIGNAL_RECEIVED.name, payload__ack=ack).exists()


@dataclass(frozen=True)
class UserMessage:
    """A message of the user.

    ack: the client's id of it.
    key: makes its storage idempotent for the session.

    note: stored beside the message, for its viewers.
    act: called in the transaction that stores the message.
    answers: the id of the question that it answers, if that is open.
    files: ids of uploaded files.
    files_digest: digest of their content, as a repetition of the message has other ids.
    """

    text: str
    ack: str = ""
    key: str = ""
    note: Mapping[str, Any] | None = None
    act: Callable[[services.Accepted], None] | None = None
    answers: UUID | None = None
    files: tuple[UUID, ...] = ()
    files_digest: str = ""


def send_user_message(principal: Principal, session: Session, message: UserMessage) -> Accepted:
    """Store a message. It interrupts what runs, unless it answers an input request. Raises what `receive` raises."""
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    request = (session.metadata.get(agent_runs.NAME) or {}).get("request", {})
    policy = policy_of_agent(session.agent)
    offered = [spec.name for spec in tools.specs_for(policy)] if request.get("tool_names") else []
    return services.receive(
        NewMessage.into(
            session,
            message.text,
            message_id=message.ack,
            note=message.note,
            attachments=message.files,
            attachments_digest=message.files_digest,
        ),
        owner=principal.user,
        session=session,
        idempotency_key=f"{session.id}:{message.key}" if message.key else "",
        options=services.ReceiveOptions(
            busy="interrupt",
            run=requests.options_of(request),
            longest_text=requests.LONGEST_TEXT,
            denied_tools=requests.denied_tools(request, offered),
            act=message.act,
            answers=message.answers,
        ),
    )
