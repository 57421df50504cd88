"""Edits and deletions of messages, as long as no run has begun with them, and reactions to answers."""

import logging
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents_app import services as runs
from audit_app import services as audit
from sessions_app.channels.inbound import group_messages, pairing_codes, turn_texts
from sessions_app.conversation.inbound_record import storable_key
from sessions_app.models import ChannelAccount, Delivery, Feedback, InboundMessage, Session
from sessions_app.platforms.messages import MessageDeleted, MessageEdited, Reaction
from sessions_app.services import LONGEST_TEXT, cancel_session_runs

logger = logging.getLogger(__name__)

DELETED = "deleted"
_RATINGS = {
    "UP": "👍 👏 🙏 ❤ 🎉 💯 ✅ 🔥 😍 🥰 👌 🤩 +1 thumbsup clap pray heart tada 100 white_check_mark fire ok_hand",
    "DOWN": "👎 😡 🤬 ❌ 💩 🤮 😠 -1 thumbsdown rage x angry",
}
_RATING_OF = {emoji: rating for rating, emojis in _RATINGS.items() for emoji in emojis.split()}
_VARIATIONS = "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"  # presentation and skin tones


def handle(account: ChannelAccount, event: MessageEdited | MessageDeleted | Reaction) -> None:
    """Handle a change of a message or a reaction. Idempotent. Owns its transactions."""
    match event:
        case MessageEdited():
            outcome = _edit(account, event)
        case MessageDeleted():
            outcome = _delete(account, event)
        case Reaction():
            outcome = _rate(account, event)
    logger.info("%s: %s: %s", account, type(event).__name__, outcome)


def rating_of(emoji: str) -> str:
    """Return the rating that a reaction expresses: UP, DOWN, or an empty text for any other one. Pure."""
    name = "".join(sign for sign in emoji.strip(":").partition("::")[0] if sign not in _VARIATIONS)
    return _RATING_OF.get(name, "")


def _edit(account: ChannelAccount, event: MessageEdited) -> str:
    with transaction.atomic():
        row = _find(account, event.key)
        if row is None and event.text.strip() and group_messages.edit(account, event.key, event.sender_id, event.text):
            return "the text of the context is replaced"
        if row is None or row.sender_id != event.sender_id or not event.text.strip():
            return "no such message"
        if row.text == event.text:
            return "its text is the same"
        if len(event.text) > LONGEST_TEXT:
            return "its text is too long"
        if row.run_id is None or row.turn is None or not runs.lock_unclaimed_run(row.run_id):
            return "its run has begun, or it has none"
        InboundMessage.objects.filter(pk=row.pk).update(text=event.text)
        turn_texts.write(row.turn)
        return "the text is replaced"


def _delete(account: ChannelAccount, event: MessageDeleted) -> str:
    with transaction.atomic():
        row = _find(account, event.key)
        if row is None and group_messages.delete(account, event.key):
            return "it is removed from the context"
        if row is None or row.run_id is None or row.turn is None:
            return "no such message"
        others = InboundMessage.objects.filter(run_id=row.run_id).exclude(pk=row.pk)
        if others.exists():
            if not runs.lock_unclaimed_run(row.run_id):
                return "its run has begun with other messages"
            InboundMessage.objects.filter(pk=row.pk).update(reason=DELETED)
            turn_texts.write(row.turn)
            return "the text is removed"
    why = "The message was deleted."
    count = cancel_session_runs(row.session, reason=why, run_id=row.run_id) if row.session else 0
    # Afterwards: if the process dies before, the event is delivered again and must still find the message.
    InboundMessage.objects.filter(pk=row.pk).update(reason=DELETED)
    return "its run is cancelled" if count else "its run has ended"


def _find(account: ChannelAccount, key: str) -> InboundMessage | None:
    rows = InboundMessage.objects.select_related("turn", "session").filter(reason="")
    return rows.filter(keys__account=account, keys__key=storable_key(key)).first()


def _rate(account: ChannelAccount, reaction: Reaction) -> str:
    rating = rating_of(reaction.emoji)
    if not rating or not pairing_codes.may_write(account, reaction.sender_id, reaction.chat.id):
        return "not a rating, or not by a sender with access"
    rows = Delivery.objects.select_related("session__agent").filter(account=account, kind="answer")
    delivery = rows.filter(provider_message_id=reaction.message_id, target__chat=reaction.chat.id).first()
    if delivery is None or delivery.session is None or delivery.run_id is None:
        return "it is not for an answer"
    sender = f"{account}:{reaction.sender_id}"
    _store_rating(delivery.session, sender, delivery.run_id, "" if reaction.is_removed else rating)
    return "it is stored as feedback"


def _store_rating(session: Session, sender: str, run_id: UUID, rating: str) -> None:
    """Store the rating of an answer by a sender on a channel; an empty one removes it. Idempotent.

    sender: account and id. Owns its transaction.
    """
    target = {"sender": sender, "target_type": "MESSAGE", "target_id": run_id}
    with transaction.atomic():
        if not rating:
            Feedback.objects.filter(**target).delete()
            return
        now = timezone.now()
        values = {"rating": rating, "updated_at": now}
        _, is_new = Feedback.objects.update_or_create(
            **target, defaults=values, create_defaults={**values, "session": session, "created_at": now}
        )
        if is_new:
            audit.record(
                "FeedbackSubmitted",
                details={"target_type": "MESSAGE", "target_id": str(run_id), "rating": rating, "sender": sender},
                agent_id=session.agent.agent_id,
                session_id=session.id,
                session_key=session.key,
            )
