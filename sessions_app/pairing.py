"""Who may talk to an account that wants its senders paired: one-time codes made by an operator, used by the sender."""

import hashlib
import secrets
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from audit_app import services as audit
from sessions_app.arrivals import clean_name, count_refused
from sessions_app.models import ChannelAccount, Pairing

MINUTES = 15
MOST_TRIES, TRIES_WITHIN = 5, timedelta(hours=1)
FAILED = "pairing_failed"
_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
_LENGTH = 8


def make_code(account: ChannelAccount) -> str:
    """A new code, shown once, good for one sender and fifteen minutes."""
    code = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    with transaction.atomic():
        expires_at = timezone.now() + timedelta(minutes=MINUTES)
        Pairing.objects.create(account=account, code_digest=_digest(account, code), expires_at=expires_at)
        audit.record("PairingCodeMade", details={"account": str(account)})
    return code


def is_paired(account: ChannelAccount, sender_id: str) -> bool:
    return Pairing.objects.filter(account=account, sender_id=sender_id).exists()


def may_try(account: ChannelAccount, sender_id: str) -> bool:
    """Not after too many wrong codes of late."""
    return count_refused(account.pk, sender_id, [FAILED], TRIES_WITHIN) < MOST_TRIES


def use_code(account: ChannelAccount, code: str, sender_id: str, sender_name: str) -> bool:
    """Pair the sender by a code. False when it is wrong, used or too old. A second sender with the same code: False."""
    digest, now = _digest(account, _normal(code)), timezone.now()
    try:
        with transaction.atomic():
            rows = Pairing.objects.filter(account=account, sender_id="", code_digest=digest, expires_at__gt=now)
            used = rows.update(
                sender_id=sender_id, sender_name=clean_name(sender_name), code_digest="", expires_at=None, paired_at=now
            )
            if used:
                audit.record("SenderPaired", details={"account": str(account), "sender_id": sender_id})
            return bool(used)
    except IntegrityError:  # paired already, by another code
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
