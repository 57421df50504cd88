"""Events about runs."""

from django.utils import timezone

from agents_app import events
from agents_app.models import Run
from agents_app.runs.next_step import End, WaitForChildren, WaitForParent
from agents_app.types import RunStatus, Snapshot, Usage, WaitingOn
from agents_app.types.child_runs import Phase, state_of
from agents_app.types.run_cost import TreeCost
from audit_app.event_types import EventType, NewEvent, P
from audit_app.kernel.shorten import shorten

_TEXT_CHARACTERS = 500
_ON_RUNS = {WaitingOn.CHILDREN: "Waiting for workstreams.", WaitingOn.BUDGET: "Waiting for tokens of its budget."}
_PHASE_TEXTS = {Phase.BLOCKED: "Waiting for a person.", Phase.SYNTHESIZING: "Working with the results."}
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


def ended(run: Run, outcome: End, usage: Usage, team: TreeCost | None = None) -> NewEvent:
    """Return the last event of a run.

    usage: of all its calls.
    team: of those and the calls of all runs below it.
    """
    payload: events.RunEnded = {
        "code": outcome.code,
        "message": outcome.message,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    }
    if team:
        together = team.usage
        payload["usage"]["with_workstreams"] = events.TokenSums(
            input_tokens=together.input_tokens, output_tokens=together.output_tokens
        )
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


def progressed(run: Run, phase: Phase, text: str, *, tool: str = "", iteration: int | None = None) -> NewEvent:
    """Return an event of progress.

    run: a child run, with its agent.
    text: shown to users.
    tool: tool that it executes.
    iteration: number of its model calls.
    """
    payload: events.WorkstreamProgressed = {
        "run_id": str(run.pk),
        "parent_run_id": str(run.parent_id),
        "workstream_id": run.workstream,
        "launch_id": str(run.pk),
        "name": run.child_spec.name,
        "status": state_of("running", is_terminating=run.terminated_at is not None).value,
        "phase": phase.value,
        "tool": tool,
        "iteration": iteration,
        "percent": percent_of(run),
        "text": shorten(text, _TEXT_CHARACTERS),
    }
    return event_of(run, events.WORKSTREAM_PROGRESSED, payload)


def steered(run: Run, command: str, text: str, message_id: str) -> NewEvent:
    """Return the event of a message or a command of a person. run: a child run, with its agent."""
    payload: events.WorkstreamSteered = {
        "run_id": str(run.pk),
        "parent_run_id": str(run.parent_id),
        "workstream_id": run.workstream,
        "launch_id": str(run.pk),
        "name": run.child_spec.name,
        "command": command,
        "text": text,
        "message_id": message_id,
    }
    return event_of(run, events.WORKSTREAM_STEERED, payload)


def percent_of(run: Run) -> int | None:
    """Return the part of a child run's deadline that has passed, in percent; None while it stands still."""
    if run.deadline_at is None:
        return None
    left = (run.deadline_at - timezone.now()).total_seconds()
    return min(max(round(100 * (1 - left / run.child_spec.deadline_seconds)), 0), 100)


def phase_changed(run: Run, phase: Phase, iteration: int | None = None, tool: str = "") -> list[NewEvent]:
    """Return the event of a phase that a child run begins; none for a root run."""
    text = _PHASE_TEXTS.get(phase) or f"Using {tool}"
    return [progressed(run, phase, text, tool=tool, iteration=iteration)] if run.parent_id else []


def parked(run: Run, decision: WaitForChildren | WaitForParent) -> list[NewEvent]:
    """Return the events of a run that begins to wait for its children or its parent.

    run: as it was before its claim. No event for one that already waited for its children.
    """
    if isinstance(decision, WaitForChildren):
        return waits_for_runs(run, WaitingOn.CHILDREN)
    text = "Paused." if decision.answer is None else decision.answer
    return [progressed(run, Phase.BLOCKED, text)]


def waits_for_runs(run: Run, on: WaitingOn) -> list[NewEvent]:
    """Return the events of a run that begins to wait for other runs, as for `parked`. on: one of `_ON_RUNS`."""
    if run.waiting_on == on.value:
        return []
    text = _ON_RUNS[on]
    blocked = [progressed(run, Phase.BLOCKED, text)] if run.parent_id else []
    return [
        event_of(run, events.RUN_WAITING, events.RunWaiting(waiting_on=on.value, reason=text, until=None)),
        *blocked,
    ]


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


def waits(run: Run, snapshot: Snapshot, waiting_on: WaitingOn) -> list[NewEvent]:
    """Return the event of a child run that begins to wait for its tools or a person."""
    if waiting_on is not WaitingOn.TOOLS:
        return phase_changed(run, Phase.BLOCKED, len(snapshot.steps))
    names = [each.tool for each in snapshot.executions if not each.status.is_terminal]
    return phase_changed(run, Phase.EXECUTING_TOOL, len(snapshot.steps), ", ".join(dict.fromkeys(names)))
