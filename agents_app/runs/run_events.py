"""Events about runs."""

from agents_app import events
from agents_app.models import Run
from agents_app.runs.next_step import End, WaitForChildren, WaitForParent
from agents_app.types import RunStatus, Usage, WaitingOn
from agents_app.types.child_runs import Phase, state_of
from audit_app.event_types import EventType, NewEvent, P
from audit_app.kernel.shorten import shorten

_TEXT_CHARACTERS = 500
_END_EVENTS: dict[RunStatus, EventType[events.RunEnded]] = {
    RunStatus.COMPLETED: events.RUN_COMPLETED,
    RunStatus.FAILED: events.RUN_FAILED,
    RunStatus.CANCELLED: events.RUN_CANCELLED,
    RunStatus.TIMED_OUT: events.RUN_TIMED_OUT,
}


def event_of(run: Run, event_type: EventType[P], payload: P, *, step: int | None = None) -> NewEvent:
    """Return an event about this run, with its agent as the actor."""
    agent_id = run.agent.agent_id
    return NewEvent(
        event_type,
        run.conversation_id,
        payload,
        run_id=run.id,
        parent_run_id=run.parent_id,
        workstream=run.workstream,
        step=step,
        actor=f"agent:{agent_id}",
        agent_id=agent_id,
        session_key=run.session_key,
    )


def ended(run: Run, outcome: End, usage: Usage) -> NewEvent:
    """Return the last event of a run. usage: of all its calls."""
    payload: events.RunEnded = {
        "code": outcome.code,
        "message": outcome.message,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    }
    return event_of(run, _END_EVENTS[outcome.status], payload)


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


def child_ended(run: Run, outcome: End) -> NewEvent:
    """Return the event for the parent. run: an ended child run, with its agent."""
    payload: events.WorkstreamEnded = {
        "run_id": str(run.pk),
        "parent_run_id": str(run.parent_id),
        "workstream_id": run.workstream,
        "launch_id": str(run.pk),
        "agent_id": run.agent.agent_id,
        "name": run.child_spec.name,
        "status": state_of(outcome.status.value, is_terminating=False).value,
        "summary": shorten(outcome.message or outcome.answer, _TEXT_CHARACTERS),
    }
    return event_of(run, events.WORKSTREAM_ENDED, payload)
