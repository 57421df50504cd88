"""Pairing of senders with accounts: one-time codes that an operator creates and a sender uses."""

import hashlib
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit_app import services as audit
from sessions_app.conversation.inbound_record import count_refused
from sessions_app.conversation.session_key import STORED_CHANNELS
from sessions_app.identity import one_time_codes
from sessions_app.models import ChannelAccount, InboundMessage, Pairing, Session
from sessions_app.platforms.messages import clean_name

MINUTES = 15
MOST_TRIES, TRIES_WITHIN = 5, timedelta(hours=1)
FAILED = "pairing_failed"


def make_code(account: ChannelAccount, user: User | None = None) -> str:
    """Create a code for one sender, valid for fifteen minutes. It is not stored readably. Owns its transaction.

    user: the local user that the sender is.
    """
    code = one_time_codes.make()
    with transaction.atomic():
        expires_at = timezone.now() + timedelta(minutes=MINUTES)
        Pairing.objects.create(account=account, code_digest=_digest(account, code), expires_at=expires_at, user=user)
        audit.record("PairingCodeMade", details={"account": str(account), "user": user.pk if user else None})
    return code


def is_paired(account: ChannelAccount, sender_id: str) -> bool:
    return Pairing.objects.filter(account=account, sender_id=sender_id).exists()


def may_write(account: ChannelAccount, sender_id: str, chat_id: str) -> bool:
    """Return whether the sender may use the account in that chat."""
    match account.access:
        case "open":
            return True
        case "allow_list":
            return bool({sender_id, chat_id} & {*account.allowed_senders})
        case _:
            return is_paired(account, sender_id)


def may_be_reached(session: Session, actor: str) -> bool:
    """Return whether a sender may still use the account of a session; True for sessions of no channel."""
    if session.channel in STORED_CHANNELS:
        return True
    arrived = InboundMessage.objects.select_related("account").filter(session=session, reason="").order_by("-id")
    last = arrived.first()
    sender_id = actor.split(":", 2)[2] if actor.startswith("sender:") else session.sender_id
    return last is not None and last.account.is_enabled and may_write(last.account, sender_id, last.chat_id)


def may_try(account: ChannelAccount, sender_id: str) -> bool:
    """Return False after too many wrong codes."""
    return count_refused(account.pk, sender_id, [FAILED], TRIES_WITHIN) < MOST_TRIES


def use_code(account: ChannelAccount, code: str, sender_id: str, sender_name: str) -> bool:
    """Pair the sender by a code. Owns its transaction. Returns False if the code is wrong, used or expired.

    For a sender who is paired already, the code links the local user that it was created for.
    """
    digest, now = _digest(account, one_time_codes.read(code)), timezone.now()
    rows = Pairing.objects.filter(account=account, sender_id="", code_digest=digest, expires_at__gt=now)
    try:
        with transaction.atomic():
            used = rows.update(
                sender_id=sender_id, sender_name=clean_name(sender_name), code_digest="", expires_at=None, paired_at=now
            )
            if used:
                audit.record("SenderPaired", details={"account": str(account), "sender_id": sender_id})
            return bool(used)
    except IntegrityError:  # paired already, by another code
        return _link_user(account, rows, sender_id)


def _link_user(account: ChannelAccount, codes: QuerySet[Pairing], sender_id: str) -> bool:
    with transaction.atomic():
        user_id = codes.values_list("user_id", flat=True).first()
        if user_id is not None and codes.delete()[0]:
            Pairing.objects.filter(account=account, sender_id=sender_id).update(user_id=user_id)
            details = {"account": str(account), "sender_id": sender_id, "user": user_id}
            audit.record("SenderPaired", details=details)
    return True


def _digest(account: ChannelAccount, code: str) -> str:
    return hashlib.sha256(f"{account.pk}:{code}".encode()).hexdigest()
