"""The outbox's part of the reaper: what dead processes were sending, what nobody sent in time;
and questions that wait to be asked or closed."""

from django.db import transaction
from django.db.models.functions import Now

from audit_app.kernel.errors import AppError
from audit_app.kernel.liveness import Observer
from sessions_app import accounts
from sessions_app.bells import deliveries as bell
from sessions_app.channels.messages import Target
from sessions_app.delivery import prompts, questions, transitions
from sessions_app.delivery.deciding import may_repeat
from sessions_app.models import Delivery

_AT_ONCE = 100


def sweep(observer: Observer) -> None:
    """One pass. Called about each second by every reaper; any number of processes may do it at once."""
    _free_dead(observer)
    _expire()
    prompts.sweep()
    questions.sweep()


def _free_dead(observer: Observer) -> None:
    owned = list(Delivery.objects.filter(owner__isnull=False).select_related("account", "session__agent").order_by())
    dead = observer.dead({row.owner for row in owned if row.owner})
    freed = False
    for row in owned:
        if row.owner not in dead:
            continue
        if row.status == "sending" and not _may_repeat(row):
            error = "The process that was sending it died."
            transitions.give_up(row, row.owner, "unknown", error)
        else:
            with transaction.atomic():
                freed = transitions.free(row) or freed
    if freed:
        bell.ring_now()


def _may_repeat(row: Delivery) -> bool:
    try:
        capabilities = accounts.pure.get(row.account).capabilities(Target.from_json(row.target).chat)
    except AppError:
        return False
    return may_repeat(capabilities, shown_id=row.provider_message_id, filename=row.filename)


def _expire() -> None:
    late = Delivery.objects.filter(status="pending", owner=None, expires_at__lte=Now())
    for row in late.select_related("account", "session__agent").order_by("expires_at")[:_AT_ONCE]:
        transitions.give_up(row, None, "expired", row.error)
