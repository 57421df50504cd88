"""The end of a child run: its outcome, what its row keeps for the parent, and its event."""

from dataclasses import replace
from typing import Any

from django.utils import timezone

from agents_app import events
from agents_app.models import Run
from agents_app.runs.next_step import CANCELLED, DEADLINE, TERMINATED, End
from agents_app.types.child_runs import state_of
from audit_app.kernel.shorten import shorten

_SUMMARY_CHARACTERS = 500


def refined(run: Run, outcome: End) -> End:
    """Return the outcome of a child run, which was cancelled because its parent or its deadline demanded it."""
    if outcome.code != CANCELLED.code:
        return outcome
    row = Run.objects.only("deadline_at", "terminated_at").get(pk=run.pk)
    if row.terminated_at:
        return replace(TERMINATED, answer=outcome.answer)
    if row.deadline_at and row.deadline_at <= timezone.now():
        return replace(DEADLINE, answer=outcome.answer)
    return outcome


def columns(run: Run) -> dict[str, Any]:
    """Return further columns of an ended child run. Its parent collects the result, unless the parent has ended."""
    is_parent_open = Run.objects.filter(ended_at=None, children=run.pk).exists()
    return {"end_stored": not is_parent_open, "alarm_at": None}


def payload(run: Run, outcome: End) -> events.WorkstreamEnded:
    return {
        "run_id": str(run.pk),
        "parent_run_id": str(run.parent_id),
        "workstream_id": run.workstream,
        "launch_id": str(run.pk),
        "agent_id": run.agent.agent_id,
        "name": run.child_spec.name,
        "status": state_of(outcome.status.value, is_terminating=False).value,
        "summary": shorten(outcome.message or outcome.answer, _SUMMARY_CHARACTERS),
    }
