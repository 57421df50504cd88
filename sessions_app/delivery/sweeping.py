"""The outbox's part of the reaper: what dead processes were sending, what nobody sent in time, what is too old."""

import time
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from audit_app.kernel.errors import AppError
from audit_app.kernel.ids import first_id_at
from audit_app.kernel.liveness import Observer
from sessions_app import accounts
from sessions_app.channels.messages import Target
from sessions_app.delivery import bell, transitions
from sessions_app.models import Delivery, InboundKey, InboundMessage

RAW_DAYS = 7
# Longer than any platform repeats a message by itself.
KEY_DAYS = 30
ROW_DAYS = 90
_TIDY_SECONDS = 600.0
_AT_ONCE = 100
_OLD_AT_ONCE = 1000

_tidied_at = float("-inf")


def sweep(observer: Observer) -> None:
    """One pass. Called about each second by every reaper; any number of processes may do it at once."""
    _free_dead(observer)
    _expire()
    _tidy_now_and_then()


def _free_dead(observer: Observer) -> None:
    owned = list(Delivery.objects.filter(owner__isnull=False).select_related("account", "session__agent").order_by())
    dead = observer.dead({row.owner for row in owned if row.owner})
    freed = False
    for row in owned:
        if row.owner not in dead:
            continue
        if row.status == "sending" and not is_repeatable(row):
            error = "The process that was sending it died."
            transitions.give_up(row, row.owner, "unknown", error)
        else:
            with transaction.atomic():
                freed = transitions.free(row) or freed
    if freed:
        bell.ring_now()


def is_repeatable(row: Delivery) -> bool:
    """Whether sending it twice does no harm: the platform drops doubles, or it goes into a message that exists."""
    if row.provider_message_id and not row.filename:
        return True
    try:
        return accounts.pure.get(row.account).capabilities(Target.from_json(row.target).chat).can_repeat
    except AppError:
        return False


def _expire() -> None:
    late = Delivery.objects.filter(status="pending", owner=None, expires_at__lte=Now())
    for row in late.select_related("account", "session__agent").order_by("expires_at")[:_AT_ONCE]:
        transitions.give_up(row, None, "expired", row.error)


def _tidy_now_and_then() -> None:
    global _tidied_at
    if time.monotonic() - _tidied_at >= _TIDY_SECONDS:
        _tidied_at = time.monotonic()
        tidy()


def tidy() -> None:
    """Drop what has served its time, a bounded number at a time."""
    now = timezone.now()
    old = InboundMessage.objects.filter(raw__isnull=False, received_at__lt=now - timedelta(days=RAW_DAYS))
    with transaction.atomic():
        ids = list(old.order_by("received_at").values_list("pk", flat=True)[:_OLD_AT_ONCE])
        InboundMessage.objects.filter(pk__in=ids).update(raw=None)
    with transaction.atomic():
        keys = InboundKey.objects.filter(pk__lt=first_id_at(now - timedelta(days=KEY_DAYS))).order_by("pk")
        InboundKey.objects.filter(pk__in=list(keys.values_list("pk", flat=True)[:_OLD_AT_ONCE])).delete()
    with transaction.atomic():
        left = Delivery.objects.filter(status="draft", owner=None, run__ended_at__lt=now - timedelta(minutes=10))
        Delivery.objects.filter(pk__in=list(left.values_list("pk", flat=True)[:_OLD_AT_ONCE])).delete()
    edge = now - timedelta(days=ROW_DAYS)
    with transaction.atomic():
        messages = InboundMessage.objects.filter(pk__lt=first_id_at(edge)).order_by("pk")
        InboundMessage.objects.filter(pk__in=list(messages.values_list("pk", flat=True)[:_OLD_AT_ONCE])).delete()
    with transaction.atomic():
        oldest = Delivery.objects.order_by("pk").values_list("pk", "created_at", "status")[:_OLD_AT_ONCE]
        gone = [pk for pk, made, status in oldest if made < edge and status not in (*Delivery.OPEN, "draft")]
        Delivery.objects.filter(pk__in=gone).delete()
