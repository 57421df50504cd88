"""Bursts: short messages that one person sends within a moment. They become one user turn."""

from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents_app import services as runs
from sessions_app.channels import open_access
from sessions_app.channels.inbound import turn_texts
from sessions_app.channels.open_access import SenderBudgetUsedUp
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import Attachment, InboundMessage, Session
from sessions_app.services import Accepted

_LONGEST = 500
_MOST = 10


def is_short(arrival: InboundRecord) -> bool:
    """Return whether the message may be a part of a burst: a short text without files."""
    return settings.KOMAND_BURST_MS > 0 and len(arrival.row.text) <= _LONGEST and not arrival.files


def await_more(accepted: Accepted) -> None:
    """Let the run of a message wait for further ones, in the caller's transaction. A run that has begun does not."""
    runs.delay_run(accepted.run_id, settings.KOMAND_BURST_MS / 1000, is_exact=True)


def join(arrival: InboundRecord, key: SessionKey) -> Accepted | None:
    """Add a short message to the turn that its sender wrote just before. Returns None if there is none to add it to.

    Owns its transaction. The run waits again for further messages.
    """
    row = arrival.row
    recent = timezone.now() - timedelta(milliseconds=settings.KOMAND_BURST_MS)
    # Two queries: joined, the newest messages of all sessions would be read until one of this session is found.
    session_id = Session.objects.filter(key=str(key)).values_list("pk", flat=True).first()
    if session_id is None:
        return None
    rows = InboundMessage.objects.select_related("turn", "session").filter(session_id=session_id)
    last = rows.order_by("-id").first()
    if last is None or last.reason or last.sender_id != row.sender_id or last.chat_id != row.chat_id:
        return None
    turn, session, run_id = last.turn, last.session, last.run_id
    if (
        last.received_at < recent
        or turn is None
        or session is None
        or run_id is None
        or last.account_id != row.account_id
    ):
        return None
    if Attachment.objects.filter(turn=turn).exists() or InboundMessage.objects.filter(turn=turn).count() >= _MOST:
        return None
    try:
        with transaction.atomic():
            arrival.claim_keys()
            open_access.charge(row.account, row.sender_id)
            if not runs.delay_run(run_id, settings.KOMAND_BURST_MS / 1000, is_exact=True):
                raise _RunBegun
            row.metadata = {**row.metadata, "burstMs": settings.KOMAND_BURST_MS}  # check_invariants compares with it
            arrival.store(turn=turn)
            turn_texts.write(turn)
    except (_RunBegun, SenderBudgetUsedUp):
        return None
    except IntegrityError:
        if arrival.find_earlier() is None:
            raise
    return Accepted(session.pk, session.key, turn.pk, run_id, turn.ordinal)


class _RunBegun(Exception):
    """The run has begun and takes no more messages."""
