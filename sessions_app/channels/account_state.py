"""The state of channel accounts for operators: their queues, and the messages that were refused. Reads only."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from uuid import UUID

from django.db.models import Count, Max, Q
from django.utils import timezone

from audit_app.kernel.ids import first_id_at
from sessions_app.models import IS_OPEN, ChannelAccount, Delivery, InboundMessage

# Reasons for which messages are refused: who wrote them, or how fast and how many. Other reasons are of the message.
REFUSALS = ("not_allowed", "not_paired", "pairing_closed", "linking_closed", "sender_budget_used_up", "too_fast")
DEAD = ("failed", "unknown", "expired")
# As the partial index has it: see `IS_OPEN`.
IS_DEAD = Q(status="failed") | Q(status="unknown") | Q(status="expired")


def count_deliveries(account_ids: Collection[UUID]) -> dict[UUID, dict[str, int]]:
    """Return, by account, the number of deliveries that wait, are being sent or were not delivered, by status."""
    counts = {account_id: dict.fromkeys(("pending", "sending", *DEAD), 0) for account_id in account_ids}
    for wanted in (IS_OPEN, IS_DEAD):  # each has a partial index; both together have none
        rows = Delivery.objects.filter(wanted, account_id__in=account_ids).order_by()
        for account_id, status, number in rows.values_list("account_id", "status").annotate(number=Count("pk")):
            counts[account_id][status] = number
    return counts


def list_stuck() -> Iterator[tuple[ChannelAccount, int, str]]:
    """Yield each enabled account with deliveries that wait after a failed attempt, their number, and the last error."""
    failed = Delivery.objects.filter(status="pending", account__is_enabled=True).exclude(error="").order_by()
    for _, number, newest in failed.values_list("account_id").annotate(Count("pk"), Max("pk")):
        row = Delivery.objects.select_related("account").filter(pk=newest).first()
        if row is not None:  # deleted since
            yield row.account, number, row.error


def count_refused(account: ChannelAccount) -> int:
    """Return how many messages to the account were refused in the last 24 hours."""
    since = first_id_at(timezone.now() - timedelta(days=1))
    rows = InboundMessage.objects.filter(account=account, id__gte=since).exclude(reason="")
    return rows.filter(reason__in=REFUSALS).count()
