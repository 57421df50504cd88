"""The audit of refused messages."""

from datetime import timedelta

from audit_app import services as audit
from sessions_app.channels.account_state import REFUSALS
from sessions_app.conversation.inbound_record import count_refused
from sessions_app.models import ChannelAccount

NOTICE_AGAIN = timedelta(hours=1)


def record(account: ChannelAccount, sender_id: str, reason: str) -> None:
    """Audit that a message was refused, once per sender and hour, before it is stored."""
    if reason in REFUSALS and not count_refused(account.pk, sender_id, REFUSALS, NOTICE_AGAIN):
        audit.record("MessageRefused", details={"account": str(account), "sender_id": sender_id, "reason": reason})
