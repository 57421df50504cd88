"""Writes what this surface adds to a session: messages of its own, notes of signals, words of the person."""

from collections.abc import Callable, Mapping
from typing import Any

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


def post(session: Session, message: Compact) -> int:
    """Store a message; returns its `ts`."""
    payload: events.UpdatePosted = {
        "kind": message["t"],
        "text": message.get("m", ""),
        "workstream": message.get("w", ""),
        "details": message.get("d"),
    }
    with transaction.atomic():
        (event,) = audit.emit([event_about(session, events.UPDATE_POSTED, payload)])
        return event.ts


def is_acknowledged(session: Session, ack: str) -> bool:
    """Whether a stored message of this surface carries the client's id of a message."""
    posted = Event.objects.filter(session_id=session.id, type=events.UPDATE_POSTED.name)
    return posted.filter(payload__details__ack=ack).exists()


def is_signalled(session: Session, ack: str) -> bool:
    """Whether a signal with that id of the client's was carried out."""
    return Event.objects.filter(session_id=session.id, type=events.SIGNAL_RECEIVED.name, payload__ack=ack).exists()


def say(
    principal: Principal,
    session: Session,
    text: str,
    *,
    ack: str = "",
    key: str = "",
    note: Mapping[str, Any] | None = None,
    act: Callable[[], None] | None = None,
) -> Accepted:
    """Take words of the person in: they interrupt what runs, unless they answer what it asks. key: the same words of
    the same key count once; act: done with them, in one transaction. Raises what `receive` raises."""
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    shown = (session.metadata.get(agent_runs.NAME) or {}).get("request", {})
    offered = [spec.name for spec in tools.specs_for(policy_of_agent(session.agent))] if shown.get("tool_names") else []
    return services.receive(
        NewMessage.into(session, text, message_id=ack, note=note),
        owner=principal.user,
        session=session,
        idempotency_key=f"{session.id}:{key}" if key else "",
        options=services.ReceiveOptions(
            busy="interrupt",
            run=requests.options_of(shown),
            longest_text=requests.LONGEST_TEXT,
            denied_tools=requests.denied_tools(shown, offered),
            act=act,
        ),
    )
