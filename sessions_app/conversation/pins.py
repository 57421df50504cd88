"""Pinned messages of a session: sent in full with every request of its later runs."""

from uuid import UUID

from django.db import transaction

from agents_app.prompt import tokens
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, found
from sessions_app import events
from sessions_app.conversation.sessions import event_about, lock
from sessions_app.models import Session, Turn

MOST_PINNED = 20
_SHARE = 4  # of the agent's context, for all together


def pin_turn(session: Session, turn_id: UUID, *, is_pinned: bool, actor: str) -> Turn:
    """Pin or unpin a message of a user or an answer. Idempotent; owns its transaction. Return the turn.

    Raises NotFound, and Conflict (not_pinnable, too_many_pinned, pinned_too_long).
    """
    with transaction.atomic():
        session = lock(session.id)
        turn = found(Turn.objects.filter(pk=turn_id, session=session).first(), "There is no such message.")
        if turn.is_pinned != is_pinned:
            if is_pinned:
                _check(session, turn)
            Turn.objects.filter(pk=turn.pk).update(is_pinned=is_pinned)
            turn.is_pinned = is_pinned
            payload: events.MessagePinned = {"turn_id": str(turn.pk), "is_pinned": is_pinned}
            audit.emit([event_about(session, events.MESSAGE_PINNED, payload, run_id=turn.run_id, actor=actor)])
        return turn


def _check(session: Session, turn: Turn) -> None:
    if turn.role not in ("user", "assistant") or not turn.content.strip():
        raise Conflict("Only a message with text can be pinned.", code="not_pinnable")
    pinned = list(Turn.objects.filter(session=session, is_pinned=True).values_list("content", "attached"))
    if len(pinned) >= MOST_PINNED:
        message = f"{MOST_PINNED} messages are pinned in this session, which is the limit. Unpin one first."
        raise Conflict(message, code="too_many_pinned")
    most = session.agent.max_context_tokens // _SHARE
    size = sum(tokens.count(content) + tokens.count(attached) for content, attached in pinned)
    size += tokens.count(turn.content) + tokens.count(turn.attached)
    if size > most:
        message = (
            f"The pinned messages would have about {size:,} tokens. They may have {most:,}, a quarter of the agent's "
            "context. Unpin another message first."
        )
        raise Conflict(message, code="pinned_too_long")
