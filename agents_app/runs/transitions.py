"""Guarded updates of a run, and its end. The only module that changes status, owner and fence of a stored run."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from agents_app import conversation_port, hot_queries, selectors
from agents_app.conversation_port import StoredEnd
from agents_app.costs import tree_budget
from agents_app.costs.usage_ledger import CallCost
from agents_app.models import IS_OPEN, IS_UNCOLLECTED, OPEN, Run, Step, children_of, lock_open_below
from agents_app.runs import run_events
from agents_app.runs.next_step import CANCELLED, DEADLINE, PARENT_ENDED, TERMINATED, End, stopped
from agents_app.types import RunStatus, RunTranscript, Snapshot, Usage
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.compiled_queries import CompiledReturning, CompiledUpdate, Param
from audit_app.kernel.database import is_away
from audit_app.kernel.nudges import nudge
from tools_app import services as tools
from tools_app.policy import emergency_stop
from tools_app.storage import artifacts

logger = logging.getLogger(__name__)

ADVANCE = "agents.advance_run"
QUEUE = "runs"

# Columns to set when a run has made progress: earlier crashes no longer count.
NO_CRASHES: dict[str, Any] = {"crashes": 0, "crash_share": 0.0}

_RUNNING = (RunStatus.RUNNING.value,)


def _guarded(run_id: UUID, statuses: Sequence[str], fence: int, owner: UUID | None) -> QuerySet[Run]:
    return Run.objects.filter(pk=run_id, status__in=statuses, fence=fence, owner=owner)


def move(run: Run, to: RunStatus, *, held_by: UUID | None, expect: Sequence[str] = _RUNNING, **changes: Any) -> bool:
    """Set a run's status if its row still has one of the expected statuses, the fence of `run` and this owner.

    Return False if it has not, because another process changed it first. changes: further columns to set.
    """
    changes = {"status": to.value, "reserved_tokens": 0, **changes}
    _give_back(run)
    return _guarded(run.id, expect, run.fence, held_by).update(**changes) == 1


def _give_back(run: Run) -> None:
    """Let runs continue that wait for tokens which this one had reserved, once the caller's transaction commits."""
    if run.reserved_tokens:
        after_commit(tree_budget.give_back, run, on_free=(ADVANCE, QUEUE))


def claim(run: Run, owner: UUID) -> bool:
    """Make `owner` the owner of an open run without one, and raise its fence. A compiled `move`.

    Return False if the row has changed since `run` was read. Raises IntegrityError if another run of the conversation
    is active.
    """
    key: dict[str, Any] = {"run_id": run.id, "fence": run.fence, "owner": owner}
    version = run.options.get("agent_version", run.agent.version or None)
    if version is None:  # none is stored, and compiled statements take no null
        return _CLAIM.run(**key) == 1
    return _CLAIM_WITH_VERSION.run(**key, agent_version=version) == 1


def _claimed(owner: UUID, **changes: Any) -> dict[str, Any]:
    return {
        "status": RunStatus.RUNNING.value,
        "owner": owner,
        "fence": F("fence") + 1,
        "waiting_on": "",
        "ready_at": None,
        "reserved_tokens": 0,
        "started_at": Coalesce("started_at", Now()),
        **changes,
    }


_CLAIM = CompiledUpdate(lambda run_id, fence, owner: (_guarded(run_id, OPEN, fence, None), _claimed(owner)))
_CLAIM_WITH_VERSION = CompiledUpdate(
    lambda run_id, fence, owner, agent_version: (
        _guarded(run_id, OPEN, fence, None),
        _claimed(owner, agent_version=agent_version),
    )
)


def record_progress(run: Run, owner: UUID, *, active_seconds: float, call: CallCost) -> bool:
    """Add the cost of a model call to a running run, and reset its failed tries and crashes. A compiled `move`.

    Return False if `owner` no longer holds it with the fence of `run`.
    """
    _give_back(run)
    return _PROGRESS.run(run_id=run.id, fence=run.fence, owner=owner, **_spent(active_seconds, call)) == 1


def _spent(active_seconds: float, call: CallCost) -> dict[str, Any]:
    return {
        "active_seconds": active_seconds,
        "input_tokens": call.usage.input_tokens,
        "output_tokens": call.usage.output_tokens,
        "cost_nanos": call.nanos or 0,
        "priced_calls": int(call.nanos is not None),
    }


_SUMS = ("active_seconds", "input_tokens", "output_tokens", "cost_nanos", "priced_calls")
_PROGRESSED = {**NO_CRASHES, "tries": 0, **{name: F(name) + Param(name) for name in _SUMS}}
_PROGRESS = CompiledUpdate(
    lambda run_id, fence, owner: (
        _guarded(run_id, _RUNNING, fence, owner),
        {**_PROGRESSED, "reserved_tokens": 0, "error_code": "", "error_message": ""},
    )
)


def end(
    run: Run,
    outcome: End,
    *,
    held_by: UUID | None,
    recorded: Snapshot | None = None,
    earlier_events: Sequence[NewEvent] = (),
    **changes: Any,
) -> bool:
    """End a run, in the caller's transaction: its status, the conversation's turns, the events, a nudge for the next.

    Its open child runs end with it; those that have an owner are cancelled by it within a second. If it is a root run
    that completes, those that outlive it are on their own from now on.
    held_by: the run's owner, or None.
    recorded: the steps and executions, if they are known and all executions have ended.
    earlier_events: events to store before those of the end.
    changes: further columns to set.

    Return False, and write nothing, if the row has changed since `run` was read.
    """
    new_events = _end(run, outcome, held_by, recorded, changes)
    if new_events is None:
        return False
    audit.emit([*earlier_events, *new_events])
    return True


def _end(
    run: Run, outcome: End, held_by: UUID | None, recorded: Snapshot | None, changes: Mapping[str, Any]
) -> list[NewEvent] | None:
    """Write the end of a run and return the events, None if its row has changed.

    The caller emits them as its last write: by then the rows of all children are locked, whose own transactions emit
    into the same timeline.
    """
    is_child = run.parent_id is not None
    outcome = _outcome_of_child(run, outcome) if is_child else outcome
    listeners = hot_queries.FIND_LISTENER.rows(run_id=run.pk) if is_child else ()
    ended = _ended(outcome.answer, outcome.code, outcome.message)
    changes = {"end_stored": not listeners, **ended, **changes}  # without a listener nobody collects it
    if not move(run, outcome.status, expect=OPEN, held_by=held_by, **changes):
        return None
    new_events = _end_children(run, outcome) if run.child_count else []
    if outcome.status is not RunStatus.COMPLETED:  # a completed run has no open execution
        new_events += tools.cancel_executions(run.id, reason=outcome.message or "The run ended.")
    transcript = selectors.get_transcript(run.id, recorded)
    new_events += _report(run, outcome, transcript, listeners) if is_child else _end_in_conversation(transcript)
    return [*new_events, run_events.ended(run, outcome, transcript.run.usage, transcript.with_workstreams)]


def request_cancel(run: Run) -> None:
    """Request the cancellation of an open run and of all open runs below it: none of them starts a run any more.

    In the caller's transaction, which has locked its row.
    """
    ids = [run.pk, *(row.pk for row in lock_open_below(run))] if run.child_count else [run.pk]
    Run.objects.filter(pk__in=ids).update(cancel_requested_at=Now())


@dataclass(frozen=True)
class Answered:
    """The claim of a run without child runs, whose last model call has completed it.

    recorded: its steps, with that call, and its executions.
    """

    owner: UUID
    recorded: Snapshot
    call: CallCost
    active_seconds: float


def end_answered(run: Run, outcome: End, answered: Answered) -> list[NewEvent] | None:
    """Record the progress of a completed run and end it, in one update, in the caller's transaction.

    Return the events, which the caller emits as its last write. Return None, and write nothing, if the claim has lost
    the run, or if the run has a user turn that the call has not seen, or a child run, or if it is a child run that was
    asked to end or is on its own.
    """
    recorded, is_child = answered.recorded, run.parent_id is not None
    key = {"run_id": run.id, "fence": run.fence, "owner": answered.owner, "turns_seen": len(recorded.user_turns)}
    stated = {"answer": outcome.answer, "code": outcome.code, "message": outcome.message}
    given = {**key, **stated, **_spent(answered.active_seconds, answered.call)}
    rows = (_END_CHILD if is_child else _END_ANSWERED).rows(**given)
    if not rows:
        return None
    _give_back(run)
    input_tokens, output_tokens, agent_version, started_at, ended_at, listener_id = rows[0]
    view = replace(
        selectors.run_view(run),
        status=outcome.status,
        waiting_on=None,
        crashes=0,
        error_code=outcome.code,
        error_message=outcome.message,
        retry_at=None,
        usage=Usage(input_tokens, output_tokens),
        agent_version=agent_version,
        started_at=started_at,
        ended_at=ended_at,
    )
    is_structured = run.output_schema is not None
    transcript = RunTranscript(view, recorded.steps, recorded.executions, outcome.answer, is_structured)
    listeners = [(False, listener_id, run.parent_id)]
    new_events = _report(run, outcome, transcript, listeners) if is_child else _end_in_conversation(transcript)
    return [*new_events, run_events.ended(run, outcome, view.usage)]


def _ended(answer: Any, code: Any, message: Any) -> dict[str, Any]:
    return {
        "owner": None,
        "waiting_on": "",
        "ready_at": None,
        "reserved_tokens": 0,
        "answer": answer,
        "error_code": code,
        "error_message": message,
        "ended_at": Now(),
        "alarm_at": None,
    }


_ANSWERED = ("input_tokens", "output_tokens", "agent_version", "started_at", "ended_at", "listener_id")


def _end_of(marks: Q, **stored: bool) -> CompiledReturning[Run]:
    """Return the statement of `end_answered`. marks: what else the row may not have been changed to."""
    return CompiledReturning(
        lambda run_id, fence, owner, turns_seen, answer, code, message: (
            _guarded(run_id, _RUNNING, fence, owner)
            .filter(marks, user_turn_count=turns_seen, child_count=0)
            .values_list(*_ANSWERED),
            {**_PROGRESSED, **_ended(answer, code, message), **stored, "status": RunStatus.COMPLETED.value},
        )
    )


_END_ANSWERED = _end_of(Q(), end_stored=True)
# A listener that ends before its child run marks it: as cancelled, or as on its own.
_END_CHILD = _end_of(Q(cancel_requested_at=None, terminated_at=None, is_on_its_own=False), end_stored=False)


def _outcome_of_child(run: Run, outcome: End) -> End:
    """Return the outcome of a child run, with the last text that it has written if it did not complete.

    It is another one if the run was cancelled because its listener, its deadline or the emergency stop demanded it.
    """
    if outcome.status is not RunStatus.COMPLETED and not outcome.answer:
        outcome = replace(outcome, answer=Step.last_text_of(run.pk))
    if outcome.code != CANCELLED.code:
        return outcome
    row = Run.objects.select_related("parent", "listener", "root__agent").get(pk=run.pk)
    if row.root and (why := emergency_stop.why_stopped(row.root.agent.agent_id)):
        return replace(stopped(why), answer=outcome.answer)
    listener = row.listener or row.parent
    if listener and not row.is_on_its_own and (listener.ended_at or listener.cancel_requested_at):
        return replace(PARENT_ENDED, answer=outcome.answer)
    is_late = row.deadline_at and row.deadline_at <= timezone.now()
    cause = TERMINATED if row.terminated_at else DEADLINE if is_late else outcome
    return replace(cause, answer=outcome.answer)


def _report(run: Run, outcome: End, transcript: RunTranscript, listeners: Sequence[Sequence[Any]]) -> list[NewEvent]:
    """Let the listener of an ended child run have its files, and continue. Return the event for it."""
    if transcript.executions and run.child_spec.merges_artifacts:  # tools write the files
        artifacts.merge_artifacts(run.conversation_id, run.pk)
    nudge_listener(listeners)
    return [run_events.child_ended(run, outcome)]


def nudge_listener(found: Sequence[Sequence[Any]]) -> None:
    """Nudge the listener of a child run. found: the result of `hot_queries.FIND_LISTENER`."""
    for is_on_its_own, listener_id, parent_id in found:
        if not is_on_its_own:  # else a sweep starts a run
            nudge(ADVANCE, str(listener_id or parent_id), queue=QUEUE)


def _end_children(run: Run, outcome: End) -> list[NewEvent]:
    """End the open children of a run that ends, and return the events. Nobody receives their results.

    Those that outlive a root run that has answered go on, on their own.
    """
    new_events: list[NewEvent] = []
    leaves, all_go_on = outcome.status is RunStatus.COMPLETED and not run.parent_id, outcome.unread_from is not None
    end_of_child = replace(outcome, answer="") if outcome.code == "stopped" else PARENT_ENDED
    rows = Run.objects.select_for_update(of=("self",), no_key=True).select_related("agent")
    for child in rows.filter(children_of(run.pk), Q(IS_OPEN) | IS_UNCOLLECTED).order_by("id"):
        if leaves and (all_go_on or child.outlives):
            Run.objects.filter(pk=child.pk).update(is_on_its_own=True, starts_run=child.child_spec.is_notified)
        elif child.owner is not None:
            request_cancel(child)
        elif child.ended_at is None:
            new_events += _end(child, end_of_child, None, None, {}) or []
    Run.objects.filter(children_of(run.pk), IS_UNCOLLECTED, is_on_its_own=False).update(end_stored=True)
    return new_events


def _end_in_conversation(transcript: RunTranscript) -> Sequence[NewEvent]:
    """Have the conversation store an ended run, and nudge the next one. Return the events."""
    stored = _store_end(transcript)
    if stored.has_later_runs:
        for run_id, owner in hot_queries.FIND_FIRST_OPEN_RUN.rows(conversation_id=transcript.run.conversation_id):
            if owner is None:
                nudge(ADVANCE, str(run_id), queue=QUEUE)
    return stored.events


def _store_end(transcript: RunTranscript) -> StoredEnd:
    """Have the conversation store an ended run.

    If that fails, the run still ends and the sweeper tries again. If the database is away, nothing of the end is
    written: the error is raised.
    """
    try:
        with transaction.atomic():
            return conversation_port.get().run_ended(transcript)
    except Exception as error:
        if is_away(error):
            raise
        logger.exception("the end of run %s could not be stored; the sweeper tries again", transcript.run.id)
        Run.objects.filter(pk=transcript.run.id).update(end_stored=False)
        return StoredEnd(())
