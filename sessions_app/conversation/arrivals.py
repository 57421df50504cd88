"""Messages of users as their senders sent them: the sender's own id, name, time and metadata."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from audit_app import timeline
from sessions_app.events import MESSAGE_RECEIVED, MessageReceived
from sessions_app.models import InboundMessage, Session, Turn

# What an adapter needs to reply; it may name addresses and tokens of the platform.
_INTERNAL = "reference"


@dataclass(frozen=True)
class Arrival:
    """A message as it arrived. sent_at: by the sender's clock; None: unknown."""

    message_id: str
    sender_id: str
    sender_name: str
    sent_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def of_turns(session: Session, turns: Sequence[Turn]) -> dict[UUID, Arrival]:
    """Return how the user turns of a session arrived, by turn. Three statements.

    Where retention has deleted the data, the sender is that of the session and the id that of the turn.
    """
    sent = [turn.pk for turn in turns if turn.role == "user"]
    found = {pk: Arrival(str(pk), session.sender_id, session.sender_name) for pk in sent}
    head = timeline.find_head(session.pk) if found else 0
    for event in timeline.list_events_of_types(session.pk, [MESSAGE_RECEIVED.name], until=head) if found else ():
        received = MESSAGE_RECEIVED.payload(event)
        if (turn_id := UUID(received["turn_id"])) in found:
            found[turn_id] = _noted(found[turn_id], received)
    for row in InboundMessage.objects.filter(turn__in=found):
        if row.turn_id:
            metadata = {name: value for name, value in row.metadata.items() if name != _INTERNAL and value is not None}
            found[row.turn_id] = Arrival(row.message_id, row.sender_id, row.sender_name, row.sent_at, metadata)
    return found


def _noted(arrival: Arrival, received: MessageReceived) -> Arrival:
    """Return the arrival with what a program sent in the fields of a channel's message."""
    note = received.get("note", {}).get("message", {})
    return replace(
        arrival,
        message_id=note.get("messageId") or received["message_id"],
        sent_at=datetime.fromisoformat(note["sentAt"]) if "sentAt" in note else None,
        metadata=note.get("metadata", {}),
    )
