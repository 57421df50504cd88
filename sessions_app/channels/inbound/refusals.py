"""Limits of how fast one sender may write, and the audit of refused messages."""

from datetime import timedelta

from django.conf import settings

from audit_app import services as audit
from audit_app.kernel.errors import RateLimited
from sessions_app.channels.account_state import REFUSALS
from sessions_app.conversation.inbound_record import count_refused
from sessions_app.identity import rate_limits
from sessions_app.identity.rate_limits import Limit
from sessions_app.models import ChannelAccount

TOO_FAST = "too_fast"
NOTICE_AGAIN = timedelta(hours=1)


class WritesTooFast(RateLimited):
    """The sender writes faster than the installation answers one sender."""

    code = TOO_FAST


def check_pace(account: ChannelAccount, sender_id: str) -> None:
    """Count one message of the sender. Raises WritesTooFast."""
    limit = Limit("sender", settings.KOMAND_SENDER_LIMIT, settings.KOMAND_SENDER_WINDOW_SECONDS)
    try:
        rate_limits.take(limit, f"{account.pk}:{sender_id}")
    except RateLimited as error:
        raise WritesTooFast(
            f"You are writing too fast: I answer {limit.permits} messages in {limit.window_seconds} seconds. "
            "I have not read the last ones; send them again in a moment.",
            retry_after_seconds=error.retry_after_seconds,
        ) from None


def record(account: ChannelAccount, sender_id: str, reason: str) -> None:
    """Audit that a message was refused, once per sender and hour, before it is stored."""
    if reason in REFUSALS and not count_refused(account.pk, sender_id, REFUSALS, NOTICE_AGAIN):
        audit.record("MessageRefused", details={"account": str(account), "sender_id": sender_id, "reason": reason})
