"""Guarded updates of a run, and its end. The only module that changes status, owner and fence of a stored run."""

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from agents_app import conversation_port, events, selectors
from agents_app.models import IS_OPEN, OPEN, Run
from agents_app.types import RunStatus, RunTranscript, Said, Usage, WaitingOn
from audit_app import services as audit
from audit_app.event_types import EventType, NewEvent, P
from audit_app.kernel.compiled_queries import CompiledQuery, CompiledUpdate
from audit_app.kernel.database import is_away
from audit_app.kernel.nudges import nudge
from tools_app import selectors as tool_selectors
from tools_app import services as tools

logger = logging.getLogger(__name__)

ADVANCE = "agents.advance_run"
QUEUE = "runs"

_ENDS: dict[RunStatus, EventType[events.RunEnded]] = {
    RunStatus.COMPLETED: events.RUN_COMPLETED,
    RunStatus.FAILED: events.RUN_FAILED,
    RunStatus.CANCELLED: events.RUN_CANCELLED,
    RunStatus.TIMED_OUT: events.RUN_TIMED_OUT,
}


def _unchanged(run_id: UUID, statuses: Sequence[str], fence: int, owner: UUID | None) -> QuerySet[Run]:
    return Run.objects.filter(pk=run_id, status__in=statuses, fence=fence, owner=owner)


def move(
    run_id: UUID, to: RunStatus, *, expect: Sequence[str], at_fence: int, held_by: UUID | None, **changes: Any
) -> bool:
    """Set a run's status if the row still has one of the expected statuses, this fence and this owner.

    Return False if it has not, because another process changed it first. changes: further columns to set.
    """
    return _unchanged(run_id, expect, at_fence, held_by).update(status=to.value, **changes) == 1


def claim(run: Run, owner: UUID) -> bool:
    """Make `owner` the owner of an open run without one, and raise its fence. A compiled `move`.

    Return False if the row no longer is as `run` was read. Raises IntegrityError if another run of the conversation is
    active.
    """
    return _CLAIM.run(run.id, run.fence, owner) == 1


_CLAIM = CompiledUpdate(
    lambda run_id, fence, owner: (
        _unchanged(run_id, OPEN, fence, None),
        {
            "status": RunStatus.RUNNING.value,
            "owner": owner,
            "fence": F("fence") + 1,
            "waiting_on": "",
            "ready_at": None,
            "started_at": Coalesce("started_at", Now()),
        },
    ),
    uuid4(),
    987_654_321,
    uuid4(),
)


def record_progress(run: Run, owner: UUID, *, active_seconds: float, usage: Usage) -> bool:
    """Add the cost of a model call to a running run, and reset its failed tries and crashes. A compiled `move`.

    Return False if `owner` no longer holds it with the fence of `run`.
    """
    return _PROGRESS.run(run.id, run.fence, owner, active_seconds, usage.input_tokens, usage.output_tokens) == 1


_PROGRESS = CompiledUpdate(
    lambda run_id, fence, owner, seconds, input_tokens, output_tokens: (
        _unchanged(run_id, [RunStatus.RUNNING.value], fence, owner),
        {
            "crashes": 0,
            "tries": 0,
            "error_code": "",
            "error_message": "",
            "active_seconds": F("active_seconds") + seconds,
            "input_tokens": F("input_tokens") + input_tokens,
            "output_tokens": F("output_tokens") + output_tokens,
        },
    ),
    uuid4(),
    987_654_321,
    uuid4(),
    0.987_654_321,
    987_654_322,
    987_654_323,
)


def end(
    run: Run,
    to: RunStatus,
    *,
    held_by: UUID | None,
    answer: str = "",
    code: str = "",
    message: str = "",
    said: Said | None = None,
    told: Sequence[NewEvent] = (),
    **changes: Any,
) -> bool:
    """End a run for good, in the caller's transaction: status, the conversation's turns, events, the next in the queue.

    held_by: who holds it (None for a run that nobody holds); answer: what it said, perhaps in part; said: its steps and
    executions, when they are known and all over; told: facts that come before those of the end. False (and nothing
    written) when the run is no longer as `run` says.
    """
    ended = move(
        run.id,
        to,
        expect=OPEN,
        at_fence=run.fence,
        held_by=held_by,
        owner=None,
        waiting_on="",
        ready_at=None,
        answer=answer,
        error_code=code,
        error_message=message,
        ended_at=Now(),
        end_stored=True,
        **changes,
    )
    if not ended:
        return False
    facts = list(told)
    if to is not RunStatus.COMPLETED:  # which none of its calls can outlast
        facts += tools.cancel_executions(run.id, reason=message or "The run ended.")
    transcript = selectors.get_transcript(run.id, said=said)
    facts += store_run_end(transcript)
    usage = transcript.run.usage
    payload: events.RunEnded = {
        "code": code,
        "message": message,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    }
    audit.emit([*facts, event_of(run, _ENDS[to], payload)])
    nudge_next(run.conversation_id)
    return True


def refresh_waiting_on(run_id: UUID) -> None:
    """Someone decided or answered, or their time was over: note what a parked run waits on by now."""
    if tool_selectors.has_pending_approval(run_id):
        now_on = WaitingOn.APPROVAL
    else:
        now_on = WaitingOn.INPUT if tool_selectors.has_open_question(run_id) else WaitingOn.TOOLS
    on_person = Q(waiting_on=WaitingOn.APPROVAL.value) | Q(waiting_on=WaitingOn.INPUT.value)
    Run.objects.filter(on_person, pk=run_id, status=RunStatus.WAITING).update(waiting_on=now_on)


def store_run_end(transcript: RunTranscript) -> Sequence[NewEvent]:
    """Have the conversation store an ended run, which counts as told. A fault there makes it untold, for the sweeper to
    try again: the run still ends. A database that takes nothing is no such fault: then nothing of the end is written.
    """
    try:
        with transaction.atomic():
            return conversation_port.get().run_ended(transcript)
    except Exception as error:
        if is_away(error):
            raise
        logger.exception(
            "the conversation could not store the end of run %s; the sweeper tries again", transcript.run.id
        )
        Run.objects.filter(pk=transcript.run.id).update(end_stored=False)
        return ()


def nudge_next(conversation_id: UUID) -> None:
    """Ring for the first queued run of a conversation that has just become free."""
    for run_id, owner in _FIRST_OPEN.rows(conversation_id):
        if owner is None:
            nudge(ADVANCE, str(run_id), queue=QUEUE)


_FIRST_OPEN = CompiledQuery(
    lambda conversation_id: (
        Run.objects.filter(IS_OPEN, conversation_id=conversation_id).order_by("ordinal").values_list("pk", "owner")[:1]
    ),
    uuid4(),
)


def event_of(run: Run, event_type: EventType[P], payload: P, *, step: int | None = None) -> NewEvent:
    """A fact about this run, told by its agent."""
    agent_id = run.agent.agent_id
    return NewEvent(
        event_type,
        run.conversation_id,
        payload,
        run_id=run.id,
        step=step,
        actor=f"agent:{agent_id}",
        agent_id=agent_id,
        session_key=run.session_key,
    )
