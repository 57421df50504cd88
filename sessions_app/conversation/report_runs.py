"""Runs that no message starts: each reports what child runs have done after the answer to a person's message."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from django.conf import settings
from django.db import transaction

from agents_app import hot_queries
from agents_app import services as runs
from agents_app.configuration.agent_access import AgentNotShared
from agents_app.models import Run
from agents_app.runs.isolation import isolated
from agents_app.types import RunOptions
from agents_app.types.child_runs import RunKind
from audit_app import services as audit
from sessions_app.conversation.sessions import check_owner, lock
from sessions_app.models import Session
from tools_app.policy.emergency_stop import Stopped

SWEPT = (hot_queries.LIST_REPORTING,)

# Return whether the actor of a session may still be reached there. `komand.wiring` fills it.
may_be_reached: list[Callable[[Session, str], bool]] = []


class _TakenElsewhere(Exception):
    """A run has been queued meanwhile that gets the results."""


def sweep() -> None:
    """Start a run for each person with child runs on their own that have a result. Owns its transactions."""
    for (child_id,) in hot_queries.LIST_REPORTING.rows():
        with isolated(f"reporting of the workstream {child_id}"), suppress(_TakenElsewhere, Stopped):
            _start(child_id)


def _start(child_id: UUID) -> None:
    """Start the run for the person of a child run. One who may not be reached gets its result with the next message."""
    child = Run.objects.select_related("parent__agent").get(pk=child_id)
    session = Session.objects.select_related("agent", "owner").get(pk=child.conversation_id)
    is_allowed = _is_allowed(session, child)
    with transaction.atomic():
        reports = runs.take_reports(session.id, child.actor)
        runs_before = max((runs.count_since_message(report) for report in reports), default=0)
        if not reports or not is_allowed or runs_before >= settings.KOMAND_MAX_RUNS_PER_MESSAGE:
            return
        session = lock(session.id)
        if hot_queries.adopters(session.id, child.actor).exists():
            raise _TakenElsewhere
        _, queued = runs.start_run(_new_run(session, reports[0], runs_before))
        Session.objects.filter(pk=session.id).update(next_ordinal=session.next_ordinal + 1)
        audit.emit(queued)


def _is_allowed(session: Session, child: Run) -> bool:
    if session.deleted_at or not child.parent or (session.owner and not session.owner.is_active):
        return False
    try:
        check_owner(session, child.parent.agent)
    except AgentNotShared:
        return False
    return all(may_reach(session, child.actor) for may_reach in may_be_reached)


def _new_run(session: Session, child: Run, runs_before: int) -> runs.NewRun:
    """Return a run with the rights of the run that launched a child run, and with its options but for the answer's."""
    parent: Run = child.parent  # type: ignore[assignment] # it has one
    given = RunOptions.from_dict(parent.options)
    options = replace(given, output_schema=None, client_tools=None, tool_choice="", note=None, retry_of="")
    return runs.NewRun(
        conversation_id=session.id,
        session_key=session.key,
        ordinal=session.next_ordinal,
        agent=parent.agent,
        actor=child.actor,
        user_turn_count=0,
        kind=RunKind.REPORT,
        spec={"runs_before": runs_before},
        session_policy=parent.session_policy,
        options=options,
    )
