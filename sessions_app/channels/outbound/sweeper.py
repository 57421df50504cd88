"""The outbox's part of the reaper: orphaned and expired deliveries, and prompts that wait to be sent or closed."""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from audit_app.kernel.liveness import Observer
from sessions_app import hot_queries
from sessions_app.channels import accounts
from sessions_app.channels.nudges import deliveries as delivery_nudge
from sessions_app.channels.outbound import prompts, question_prompts, transitions
from sessions_app.channels.outbound.retry_policy import may_repeat
from sessions_app.models import Delivery
from sessions_app.platforms.messages import Target
from tools_app import selectors as tools

# After an answer was stored, a live process may still be busy with its preview for this long.
_PREVIEW_GRACE = timedelta(seconds=30)

SWEPT = (
    hot_queries.LIST_OWNED_DELIVERIES,
    hot_queries.LIST_LATE_DELIVERIES,
    hot_queries.FIND_OPEN_PROMPT,
    hot_queries.FIND_OPEN_QUESTION_PROMPT,
    *tools.OPEN_REQUESTS,
)


def sweep(observer: Observer) -> None:
    """Do one pass. Called about once a second by the reaper, if SWEPT finds a row; safe to run concurrently."""
    _free_dead(observer)
    _expire()
    prompts.sweep()
    question_prompts.sweep()


def _free_dead(observer: Observer) -> None:
    owned = hot_queries.LIST_OWNED_DELIVERIES.fetch()
    dead = observer.dead({row.owner for row in owned if row.owner})
    edge = timezone.now() - _PREVIEW_GRACE
    freed = False
    for row in owned:
        is_stale = row.status == "pending" and row.ready_at < edge
        if row.owner not in dead and not is_stale:
            continue
        if row.status == "sending" and not _may_repeat(row):
            transitions.give_up(row, row.owner, "unknown", "The process that was sending it died.")
        else:
            with transaction.atomic():
                freed = transitions.free(row) or freed
    if freed:
        delivery_nudge.send_now()


def _may_repeat(row: Delivery) -> bool:
    capabilities = accounts.pure.capabilities(row.account, Target.from_json(row.target).chat)
    return capabilities is not None and may_repeat(
        capabilities, shown_id=row.provider_message_id, filename=row.filename
    )


def _expire() -> None:
    for row in hot_queries.LIST_LATE_DELIVERIES.fetch():
        transitions.give_up(row, None, "expired", row.error)
