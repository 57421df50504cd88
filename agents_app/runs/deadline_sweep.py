"""Deadlines and pauses of child runs. The sweeper warns parents, and asks runs to finish and ends them. Idempotent."""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import hot_queries
from agents_app.models import IS_OPEN, OPEN, Run
from agents_app.prompt import child_texts
from agents_app.runs import child_messages, transitions
from agents_app.runs.child_messages import CHILD_AT, END_AT, PARTS, RunNote, alarm_of, part_of
from agents_app.runs.isolation import isolated
from agents_app.runs.next_step import DEADLINE, PAUSE_OVER, TERMINATED, End
from agents_app.types import WaitingOn
from agents_app.types.child_runs import GRACE_SECONDS, MessageKind

SWEPT = (hot_queries.LIST_ALARMS,)


def sweep() -> None:
    """Handle the parts of deadlines that have passed. Owns its transactions."""
    for run_id, listener_id in hot_queries.LIST_ALARMS.rows():
        with isolated(f"handling the deadline of run {run_id}"), transaction.atomic():
            _handle(run_id, listener_id)


def hold(run_id: UUID) -> None:
    """Move the deadlines of a child run, and of those above it, by the time in which they waited for a person.

    Owns its transactions, one for each run.
    """
    next_id: UUID | None = run_id
    while next_id:
        with transaction.atomic():
            run = Run.objects.select_for_update(no_key=True).filter(pk=next_id).first()
            if run and run.deadline_at and not run.ended_at:
                _hold(run)
        next_id = run.parent_id if run else None


def _hold(run: Run) -> bool:
    """Move the deadline of a run. Return whether it was moved. The caller has locked its row."""
    held = child_messages.held_seconds_of(run)
    more = timedelta(seconds=held - run.held_seconds)
    if run.terminated_at or more <= timedelta():
        return False
    moved = {"deadline_at": F("deadline_at") + more, "alarm_at": F("alarm_at") + more, "held_seconds": held}
    return Run.objects.filter(pk=run.pk, deadline_at__isnull=False).update(**moved) == 1


def move_times(since: datetime, by: timedelta) -> int:
    """Move what open runs wait for by a time in which no process ran, and return their number.

    since: beginning of that time. In the caller's transaction; only while no process runs.
    """
    rows = Run.objects.filter(IS_OPEN)
    count = rows.update(ready_at=F("ready_at") + by, progress_at=F("progress_at") + by)
    is_network = Q(options__network__isnull=False, started_at__isnull=False)
    for run in rows.filter(Q(alarm_at__isnull=False) | is_network):
        # The sweep moves deadlines by the rest, in which a person was waited for; time limits of networks contain it.
        held = timedelta(seconds=child_messages.held_seconds_of(run, since + by))
        own = by - held + timedelta(seconds=child_messages.held_seconds_of(run, since))
        alarm = own if run.deadline_at and not run.terminated_at else by
        of_child = {"deadline_at": F("deadline_at") + own, "alarm_at": F("alarm_at") + alarm}
        rows.filter(pk=run.pk).update(**(of_child if run.parent_id else {"started_at": F("started_at") + own}))
    return count


def _handle(run_id: UUID, listener_id: UUID) -> None:
    # Lock order: the row of a child run's listener before its own.
    Run.objects.select_for_update(no_key=True).filter(pk=listener_id).first()
    rows = Run.objects.select_for_update(of=("self",), no_key=True).select_related("agent")
    run = rows.filter(pk=run_id, status__in=OPEN, alarm_at__lte=Now()).first()
    if run is None:
        return
    if _hold(run):
        return
    seconds, deadline_at, alarm_at = run.child_spec.deadline_seconds, run.deadline_at, run.alarm_at
    if run.terminated_at or deadline_at is None or alarm_at is None:
        _end_or_request(run)
        return
    passed = part_of(deadline_at, seconds, alarm_at)
    if passed == END_AT:
        _end_or_request(run)
        return
    following = PARTS[PARTS.index(passed) + 1]
    Run.objects.filter(pk=run_id).update(alarm_at=alarm_of(deadline_at, seconds, following))
    _warn(run, listener_id, passed)


def _warn(run: Run, listener_id: UUID, passed: int) -> None:
    """Tell the child run to finish at one part of its deadline, and its listener of the others."""
    if passed == CHILD_AT:
        child_messages.ask_to_finish(run, child_texts.WRAP_UP)
    else:
        text = child_texts.WARNING.format(workstream=run.workstream, launch_id=run.pk, percent=passed)
        child_messages.send(listener_id, RunNote(MessageKind.NOTICE, text, about=run.pk, resumes=False))


def _end_or_request(run: Run) -> None:
    """End a child run whose time is over; its owner, if it has one, is requested to. The caller has locked its row."""
    if run.owner is None:
        transitions.end(run, _outcome(run), held_by=None, is_paused=False)
    else:
        again = timezone.now() + timedelta(seconds=GRACE_SECONDS)
        Run.objects.filter(pk=run.pk).update(alarm_at=again)
        transitions.request_cancel(run)


def _outcome(run: Run) -> End:
    if run.terminated_at:
        return TERMINATED
    return PAUSE_OVER if run.is_paused and run.waiting_on == WaitingOn.PARENT.value else DEADLINE
