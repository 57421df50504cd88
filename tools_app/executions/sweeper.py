"""One pass of the tools' sweeper: recovers executions whose nudge, process or end was lost."""

import logging
from datetime import datetime, timedelta
from enum import Enum
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from audit_app.kernel.liveness import Observer
from tools_app import conf, hot_queries, selectors
from tools_app.executions import client_calls, nudges
from tools_app.executions.approvals import expire_approvals
from tools_app.executions.runner import Outcome, finish
from tools_app.executions.transitions import move, renudge_at
from tools_app.executions.user_input import expire_inputs, withdraw_input
from tools_app.models import InputRequest, ToolExecution
from tools_app.types import Effect, ExecutionStatus

logger = logging.getLogger(__name__)

_NUDGES_PER_PASS = 100
# What a sweep handles.
SWEPT = (
    hot_queries.FIND_RUNNING,
    hot_queries.FIND_LATE_NUDGE,
    hot_queries.LIST_EXPIRED_APPROVALS,
    hot_queries.LIST_EXPIRED_INPUTS,
)


class Rescue(Enum):
    """Treatment of a running execution."""

    NOTHING = "it is running"
    TIME_OUT = "its time limit has passed, and its process was killed or should have been"
    RUN_AGAIN = "its process died, and the call may be repeated"
    GIVE_UP = "its process died in every attempt"
    MARK_UNKNOWN = "its process died, and the call may have taken effect"


def choose_rescue(effect: Effect, attempts: int, ran: timedelta, timeout_seconds: int, *, is_dead: bool) -> Rescue:
    """Return the treatment of a running execution. ran: how long the current attempt has been running."""
    limit = timedelta(seconds=timeout_seconds)
    if is_dead:
        if ran >= limit:
            return Rescue.TIME_OUT
        if effect is Effect.ONCE:
            return Rescue.MARK_UNKNOWN
        return Rescue.GIVE_UP if attempts >= conf.MAX_ATTEMPTS else Rescue.RUN_AGAIN
    if ran >= limit + timedelta(seconds=conf.GRACE_SECONDS + conf.KILL_SLACK_SECONDS):
        return Rescue.TIME_OUT
    return Rescue.NOTHING


def sweep(observer: Observer) -> set[UUID]:
    """Check every running execution, and the pending ones whose nudge may be lost. Called about once a second.

    Safe to run in any number of processes: each action is one guarded update in a transaction of its own. Returns the
    runs whose approval or question has expired.
    """
    _rescue_running(observer)
    _renudge()
    return expire_approvals() | expire_inputs()


def _rescue_running(observer: Observer) -> None:
    if not hot_queries.FIND_RUNNING.rows():
        return
    running = list(ToolExecution.objects.filter(owner__isnull=False).annotate(now=Now()).order_by())
    dead = observer.dead({row.owner for row in running if row.owner})
    for row in running:
        if row.started_at is not None:
            ran = row.now - row.started_at
            is_dead = row.owner in dead
            attempts = row.attempts - (InputRequest.objects.filter(execution=row).count() if is_dead else 0)
            rescue = choose_rescue(Effect(row.effect), attempts, ran, row.timeout_seconds, is_dead=is_dead)
            _rescue(row, rescue, is_dead=is_dead)


def _rescue(row: ToolExecution, rescue: Rescue, *, is_dead: bool) -> None:
    match rescue:
        case Rescue.TIME_OUT:
            error = f"The call did not finish within {row.timeout_seconds} seconds and was stopped."
            _end(row, ExecutionStatus.TIMED_OUT, error, stop=not is_dead)
        case Rescue.MARK_UNKNOWN:
            error = (
                "The process that ran this call died, so its outcome is unknown: it may have taken effect. Check "
                "before you repeat it."
            )
            _end(row, ExecutionStatus.UNKNOWN, error)
        case Rescue.GIVE_UP:
            _end(row, ExecutionStatus.FAILED, f"The process that ran this call died {row.attempts} times.")
        case Rescue.RUN_AGAIN:
            with transaction.atomic():
                if move(row.id, ExecutionStatus.PENDING, attempt=row.attempts):
                    withdraw_input(row)
                    nudges.nudge_worker(row)


def release(row: ToolExecution) -> None:
    """Release the call before its process ends: a repeatable one is run elsewhere, any other one is marked unknown."""
    _rescue(row, Rescue.MARK_UNKNOWN if Effect(row.effect) is Effect.ONCE else Rescue.RUN_AGAIN, is_dead=True)


def _end(row: ToolExecution, status: ExecutionStatus, error: str, *, stop: bool = False) -> None:
    with transaction.atomic():
        if finish(row, Outcome(status, error=error)):
            withdraw_input(row)
            if stop:
                nudges.stop([row])


def _renudge() -> None:
    if not hot_queries.FIND_LATE_NUDGE.rows():
        return
    due = (
        ToolExecution.objects.filter(renudge_at__lte=Now())
        .annotate(now=Now())
        .order_by("renudge_at")[:_NUDGES_PER_PASS]
    )
    for row in due:
        if row.client_until:
            client_calls.expire(row)
        else:
            _renudge_late(row, row.now)
    if untaken := selectors.count_untaken():
        logger.error(
            "tool calls that no worker has taken for %d s: %d; all workers are busy, or one hangs: manage.py doctor",
            conf.UNTAKEN_SECONDS,
            untaken,
        )


def _renudge_late(row: ToolExecution, now: datetime) -> None:
    # Exponential back-off, so that repeated nudges do not flood a long queue.
    waited = (now - row.created_at).total_seconds()
    pause = min(max(waited, conf.RENUDGE_SECONDS), conf.RENUDGE_MAX_SECONDS)
    with transaction.atomic():
        rows = ToolExecution.objects.filter(id=row.id, status=ExecutionStatus.PENDING, renudge_at__lte=Now())
        if rows.update(renudge_at=renudge_at(pause)):
            nudges.nudge_worker(row)
