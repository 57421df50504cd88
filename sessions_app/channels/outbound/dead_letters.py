"""Deliveries that were given up: failed, expired, or sent with an unknown outcome. Operators can send them again."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import QuerySet

from audit_app import services as audit
from audit_app.kernel.errors import found
from sessions_app.channels.account_state import IS_DEAD
from sessions_app.channels.outbound import transitions
from sessions_app.models import ChannelAccount, Delivery

_AGAIN_SECONDS = 3600.0


def list_of(account: ChannelAccount, status: str = "") -> QuerySet[Delivery]:
    """Return the account's deliveries that were given up, newest first. status: only those."""
    rows = Delivery.objects.select_related("session").filter(IS_DEAD, account=account).order_by("-id")
    return rows.filter(status=status) if status else rows


def find(account: ChannelAccount, delivery_id: int) -> Delivery:
    """Return a delivery of the account, given up or not. Raises NotFound (unknown_delivery)."""
    rows = Delivery.objects.select_related("session").filter(account=account, pk=delivery_id)
    return found(rows.first(), "There is no such delivery.", code="unknown_delivery")


def send_again(deliveries: Sequence[Delivery]) -> int:
    """Queue failed deliveries again; they expire after an hour. Return how many. Audited. Owns its transaction."""
    with transaction.atomic():
        count = transitions.send_again(deliveries, _AGAIN_SECONDS)
        audit.record("DeliveriesSentAgain", details={"deliveries": [row.pk for row in deliveries], "count": count})
    return count
