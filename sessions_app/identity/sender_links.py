"""Links between users and senders of channels, made with proof on both sides.

The user gets a code on a page, for which they are logged in. Whoever sends it in a chat gets a number there, which the
user enters on the page. The code proves the user to the chat, the number the chat to the user: a stolen or guessed code
links nothing, because its thief cannot enter the number on the user's page, and the user does not have it.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from audit_app import services as audit
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from sessions_app.identity import linked_memories, one_time_codes
from sessions_app.models import ChannelAccount, SenderLink
from sessions_app.platforms.sender_actors import sender_actor

MINUTES = 15
MOST_WRONG_NUMBERS = 5
_DIGITS = 6


class WrongNumber(InvalidInput):
    """The number is not the one that the chat shows. After five wrong ones, a new code is needed."""

    code = "wrong_number"


class NothingToConfirm(Conflict):
    """No chat has sent your code, or its time is over. Get a new code and send it."""

    code = "nothing_to_confirm"


class LinkedAlready(Conflict):
    """The sender is linked with a user already."""

    code = "linked_already"


@dataclass(frozen=True)
class NewCode:
    """A code as it is shown, once."""

    code: str
    expires_at: datetime


@dataclass(frozen=True)
class Claim:
    """A code that a sender has sent. number: for the user to enter."""

    user: User
    number: str


def make_code(user: User) -> NewCode:
    """Create a code, which replaces the user's earlier one. Owns its transaction; audited."""
    code, expires_at = one_time_codes.make(), timezone.now() + timedelta(minutes=MINUTES)
    with transaction.atomic():
        SenderLink.objects.filter(user=user, linked_at=None).delete()
        SenderLink.objects.create(user=user, code_digest=_digest(code), expires_at=expires_at)
        audit.record("LinkCodeMade", actor=f"user:{user.pk}")
    return NewCode(code, expires_at)


def claim(account: ChannelAccount, code: str, sender_id: str, sender_name: str) -> Claim | None:
    """Note that the sender has sent the code, which nobody can send again. None if it is wrong, used or expired.

    Owns its transaction.
    """
    digest, now = _digest(one_time_codes.read(code)), timezone.now()
    number = f"{secrets.randbelow(10**_DIGITS):0{_DIGITS}}"
    with transaction.atomic():
        rows = SenderLink.objects.select_related("user").filter(code_digest=digest, expires_at__gt=now)
        row = rows.filter(user__is_active=True).select_for_update(of=("self",), no_key=True).first()
        if row is None:
            return None
        row.account, row.sender_id, row.sender_name = account, sender_id, sender_name
        row.code_digest, row.number_digest = "", _digest(f"{row.pk}:{number}")
        row.save()
        details = {"account": str(account), "sender_id": sender_id, "user": row.user_id}
        audit.record("LinkCodeSent", actor=actor_of(account, sender_id), details=details)
    return Claim(row.user, number)


def confirm(user: User, number: str) -> SenderLink:
    """Link the sender who has sent the user's code, by the number that their chat shows. Owns its transactions.

    The user gets the memories of the sender's own chat. Audited. Raises WrongNumber, NothingToConfirm, LinkedAlready.
    """
    try:
        with transaction.atomic():
            row = _lock_claimed(user)
            is_right = constant_time_compare(row.number_digest, _digest(f"{row.pk}:{number.strip()}"))
            if is_right:
                _link(row)
            else:
                _count_wrong(row)
    except IntegrityError:
        raise LinkedAlready from None
    if not is_right:
        raise WrongNumber
    return row


def list_links(user: User) -> list[SenderLink]:
    """Return the user's links, and the sender who waits for the number, newest first."""
    rows = SenderLink.objects.select_related("account").filter(user=user).exclude(account=None)
    return list(rows.exclude(linked_at=None, expires_at__lt=timezone.now()))


def unlink(user: User, link_id: UUID) -> None:
    """End a link of the user, or refuse the sender who waits. Owns its transaction; audited. Raises NotFound."""
    with transaction.atomic():
        row = SenderLink.objects.filter(user=user, pk=link_id).select_related("account").first()
        if row is None:
            raise NotFound("There is no such link.")
        _end(row, f"user:{user.pk}")


def find_link(account: ChannelAccount, sender_id: str) -> SenderLink | None:
    """Return the link of a sender, None if there is none."""
    return SenderLink.objects.filter(account=account, sender_id=sender_id, linked_at__isnull=False).first()


def unlink_sender(account: ChannelAccount, sender_id: str) -> bool:
    """End the link of a sender; return whether there was one. Owns its transaction; audited."""
    with transaction.atomic():
        row = find_link(account, sender_id)
        if row is not None:
            _end(row, actor_of(account, sender_id))
        return row is not None


def actor_of(account: ChannelAccount, sender_id: str) -> str:
    """Return a sender of an account as an actor."""
    return sender_actor(account.channel, account.account_id, sender_id)


def _lock_claimed(user: User) -> SenderLink:
    rows = SenderLink.objects.select_related("account").select_for_update(of=("self",), no_key=True)
    claimed = rows.filter(user=user, linked_at=None, expires_at__gt=timezone.now()).exclude(number_digest="")
    row = claimed.first()
    if row is None:
        raise NothingToConfirm
    return row


def _link(row: SenderLink) -> None:
    row.linked_at, row.expires_at, row.number_digest = timezone.now(), None, ""
    row.save()
    moved = linked_memories.move_to_user(row)
    audit.record("SenderLinked", actor=f"user:{row.user_id}", details={**_details(row), "memories": moved})


def _count_wrong(row: SenderLink) -> None:
    row.wrong_numbers += 1
    if row.wrong_numbers >= MOST_WRONG_NUMBERS:
        row.delete()
    else:
        row.save(update_fields=["wrong_numbers"])


def _end(row: SenderLink, actor: str) -> None:
    audit.record("SenderUnlinked", actor=actor, details=_details(row))
    row.delete()


def _details(row: SenderLink) -> dict[str, object]:
    return {"account": str(row.account or ""), "sender_id": row.sender_id, "user": row.user_id}


def _digest(text: str) -> str:
    return salted_hmac("komand.sender_link", text, algorithm="sha256").hexdigest()
