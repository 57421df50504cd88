"""Migration of a chat to which the platform gave a new id."""

import logging

from django.db import IntegrityError, transaction
from django.utils import timezone

from sessions_app.channels import routes
from sessions_app.channels.nudges import deliveries as delivery_nudge
from sessions_app.channels.outbound.outbox import ordering_key_of
from sessions_app.conversation.session_key import SessionKey, parse_key
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Pairing, Session
from sessions_app.platforms.messages import Target
from sessions_app.platforms.registry import channels

logger = logging.getLogger(__name__)


def move_chat(account: ChannelAccount, old: str, new: str) -> None:
    """Move a chat's sessions, access rights and unsent answers to its new id. Idempotent. Owns its transaction."""
    with transaction.atomic():
        channel = channels.get(account.channel).name
        for session in Session.objects.filter(channel=channel, account_id=account.account_id, sender_id=old):
            _rename(session, new)
        _keep_access(account, old, new)
        routes.move_chat(account, old, new)
        InboundMessage.objects.filter(account=account, chat_id=old, reason="").update(chat_id=new)
        for row in Delivery.objects.filter(account=account, status__in=["draft", "pending"], target__chat=old):
            target = {**row.target, "chat": new}
            ordering_key = ordering_key_of(account.pk, Target.from_json(target).chat)
            Delivery.objects.filter(pk=row.pk).update(target=target, ordering_key=ordering_key)
        delivery_nudge.send_on_commit()


def _rename(session: Session, sender_id: str) -> None:
    key = SessionKey(session.channel, session.account_id, sender_id, parse_key(session.key).thread_id)
    try:
        with transaction.atomic():
            Session.objects.filter(pk=session.pk).update(sender_id=sender_id, key=str(key))
    except IntegrityError:
        logger.warning("session %s keeps its old chat: the new one already has a session", session.key)


def _keep_access(account: ChannelAccount, old: str, new: str) -> None:
    if old in account.allowed_senders:
        allowed = [new if sender == old else sender for sender in account.allowed_senders]
        ChannelAccount.objects.filter(pk=account.pk).update(allowed_senders=allowed, updated_at=timezone.now())
    if not Pairing.objects.filter(account=account, sender_id=new).exists():
        Pairing.objects.filter(account=account, sender_id=old).update(sender_id=new)
