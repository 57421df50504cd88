"""Events about child runs."""

from agents_app import events
from agents_app.models import Run
from agents_app.runs.next_step import WaitForChildren, WaitForParent
from agents_app.runs.transitions import event_of
from agents_app.types import WaitingOn
from agents_app.types.child_runs import Phase, state_of
from audit_app.event_types import NewEvent
from audit_app.kernel.shorten import shorten

_TEXT_CHARACTERS = 500


def launched(run: Run) -> NewEvent:
    """Return the event of a launch. run: a child run, with its agent."""
    payload: events.WorkstreamLaunched = {
        "run_id": str(run.pk),
        "parent_run_id": str(run.parent_id),
        "workstream_id": run.workstream,
        "launch_id": str(run.pk),
        "agent_id": run.agent.agent_id,
        "name": run.child_spec.name,
        "interactive": run.child_spec.is_interactive,
        "deadline_seconds": run.child_spec.deadline_seconds,
    }
    return event_of(run, events.WORKSTREAM_LAUNCHED, payload)


def progressed(run: Run, phase: Phase, text: str) -> NewEvent:
    """Return an event of progress.

    run: a child run, with its agent.
    text: shown to users.
    """
    payload: events.WorkstreamProgressed = {
        "run_id": str(run.pk),
        "parent_run_id": str(run.parent_id),
        "workstream_id": run.workstream,
        "launch_id": str(run.pk),
        "name": run.child_spec.name,
        "status": state_of("running", is_terminating=run.terminated_at is not None).value,
        "phase": phase.value,
        "text": shorten(text, _TEXT_CHARACTERS),
    }
    return event_of(run, events.WORKSTREAM_PROGRESSED, payload)


def parked(run: Run, decision: WaitForChildren | WaitForParent) -> list[NewEvent]:
    """Return the events of a run that begins to wait for its children or its parent.

    run: as it was before its claim. No event for one that already waited for its children.
    """
    if isinstance(decision, WaitForChildren):
        if run.waiting_on == WaitingOn.CHILDREN.value:
            return []
        payload = events.RunWaiting(waiting_on=WaitingOn.CHILDREN.value, reason="Waiting for workstreams.", until=None)
        return [event_of(run, events.RUN_WAITING, payload)]
    text = "Paused." if decision.answer is None else decision.answer
    return [progressed(run, Phase.BLOCKED, text)]
