"""Who may talk to an account that wants its senders paired: one-time codes made by an operator, used by the sender."""

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit_app import services as audit
from sessions_app.conversation.inbound_record import clean_name, count_refused
from sessions_app.models import ChannelAccount, Pairing

MINUTES = 15
MOST_TRIES, TRIES_WITHIN = 5, timedelta(hours=1)
FAILED = "pairing_failed"
_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
_LENGTH = 8


def make_code(account: ChannelAccount, user: User | None = None) -> str:
    """A new code, shown once, good for one sender and fifteen minutes. user: who that sender is here."""
    code = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    with transaction.atomic():
        expires_at = timezone.now() + timedelta(minutes=MINUTES)
        Pairing.objects.create(account=account, code_digest=_digest(account, code), expires_at=expires_at, user=user)
        audit.record("PairingCodeMade", details={"account": str(account), "user": user.pk if user else None})
    return code


def is_paired(account: ChannelAccount, sender_id: str) -> bool:
    return Pairing.objects.filter(account=account, sender_id=sender_id).exists()


def may_try(account: ChannelAccount, sender_id: str) -> bool:
    """Not after too many wrong codes of late."""
    return count_refused(account.pk, sender_id, [FAILED], TRIES_WITHIN) < MOST_TRIES


def use_code(account: ChannelAccount, code: str, sender_id: str, sender_name: str) -> bool:
    """Pair the sender by a code. False when it is wrong, used or too old. A second sender with the same code: False.

    For one who is paired already, the code may tell who they are.
    """
    digest, now = _digest(account, _normal(code)), timezone.now()
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
        return _tell_who(account, rows, sender_id)


def _tell_who(account: ChannelAccount, codes: QuerySet[Pairing], sender_id: str) -> bool:
    with transaction.atomic():
        user_id = codes.values_list("user_id", flat=True).first()
        if user_id is not None and codes.delete()[0]:
            Pairing.objects.filter(account=account, sender_id=sender_id).update(user_id=user_id)
            details = {"account": str(account), "sender_id": sender_id, "user": user_id}
            audit.record("SenderPaired", details=details)
    return True


def unpair(pairing: Pairing) -> None:
    """The sender may not talk to the account any more."""
    with transaction.atomic():
        pairing.delete()
        audit.record("SenderUnpaired", details={"account": str(pairing.account), "sender_id": pairing.sender_id})


def _normal(code: str) -> str:
    """As people type and platforms change it: any case, spaces and invisible marks anywhere."""
    return "".join(character for character in code.upper() if character in _ALPHABET)


def _digest(account: ChannelAccount, code: str) -> str:
    return hashlib.sha256(f"{account.pk}:{code}".encode()).hexdigest()
