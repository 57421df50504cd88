"""Child runs of an agent run: its workstreams as clients poll them, and their records. Synchronous."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Q
from django.utils import timezone

from agents_app import selectors as agents
from agents_app.models import IS_OPEN, Run, Step
from agents_app.types.child_runs import ChildState, ChildView
from audit_app.kernel.errors import NotFound, found
from audit_app.kernel.shorten import shorten
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.projection import unique_name
from sessions_app.surfaces.base.timestamps import iso

_MOST = 100
_SUMMARY_CHARACTERS = 500
_NUMBERS = {ChildState.COMPLETED: 2, ChildState.FAILED: 3, ChildState.TIMEOUT: 3, ChildState.CANCELED: 5}


def active_workstreams(run: AgentRun) -> dict[str, Any]:
    """Return all workstreams that run, and the newest that have ended."""
    working = agents.child_views(list(_rows(run).filter(IS_OPEN).order_by("id")))
    rows = _rows(run).filter(ended_at__isnull=False).order_by("-id")[:_MOST]
    ended, names = agents.child_views(list(reversed(rows))), _unique_names(run)
    calls = _calls_of([view.launch_id for view in working])
    return {
        "running": [_running(view, names, calls.get(view.launch_id)) for view in working],
        "completed": [_ended(view, names) for view in ended],
    }


def list_children(run: AgentRun) -> list[dict[str, Any]]:
    """Return the records of the run's newest child runs, oldest first."""
    rows, names = _rows(run).order_by("-id")[:_MOST], _unique_names(run)
    return [_record(view, names) for view in agents.child_views(list(reversed(rows)))]


def child_details(run: AgentRun, child_id: str) -> dict[str, Any]:
    """Return the record of a child run, named by its run or workflow id. Raises NotFound."""
    try:
        key = UUID(child_id.removeprefix("agent-"))
    except ValueError:
        raise NotFound("There is no such child run.") from None
    row = _rows(run).filter(pk=key).first()
    view = agents.child_view(found(row, "There is no such child run."))
    result = {"result": view.result} if view.result else {}
    return {**_record(view, _unique_names(run)), **result, **({"error": {"message": view.error}} if view.error else {})}


def find_child(run: AgentRun, workstream: str) -> UUID:
    """Return the id of the child run with this name, as the messages have it. Raises NotFound (unknown_workstream)."""
    found_id = next((run_id for run_id, name in _unique_names(run).items() if name == workstream), None)
    return found(found_id, f"There is no workstream {workstream!r}.", code="unknown_workstream")


def name_of(run: AgentRun, child_id: UUID) -> str:
    """Return the name of a child run, as the messages have it. Raises NotFound."""
    return found(_unique_names(run).get(child_id), "There is no such child run.")


def _rows(run: AgentRun) -> Any:
    return Run.objects.select_related("agent").filter(conversation_id=run.session.id, parent__isnull=False)


def _unique_names(run: AgentRun) -> dict[UUID, str]:
    """Return the names of the run's workstreams that are unique in its session: those of its messages."""
    names: dict[UUID, str] = {}
    for run_id, name in _rows(run).order_by("ordinal").values_list("pk", "workstream"):
        names[run_id] = unique_name(name, str(run_id), names.values())
    return names


def _calls_of(run_ids: Collection[UUID]) -> dict[UUID, tuple[int, datetime]]:
    """Return the number of model calls of these runs, and the time of the last one."""
    steps = Step.objects.filter(run_id__in=run_ids, kind=Step.MODEL).order_by().values_list("run_id")
    return {run_id: (calls, last) for run_id, calls, last in steps.annotate(Count("pk"), Max("ended_at"))}


def results_of(run_ids: Collection[UUID]) -> dict[UUID, tuple[str, int]]:
    """Return the results of ended child runs, each with the number of its last step."""
    last = Max("steps__index", filter=Q(steps__kind=Step.MODEL))
    rows = Run.objects.filter(pk__in=run_ids, parent__isnull=False).order_by().annotate(last=last)
    return {run_id: (text, step or 0) for run_id, text, step in rows.values_list("pk", "answer", "last")}


def _record(view: ChildView, names: Mapping[UUID, str]) -> dict[str, Any]:
    shown = {
        **_names(view, names),
        "run_id": str(view.launch_id),
        "workflow_id": f"agent-{view.launch_id}",
        "parent_run_id": str(view.parent_id),
        "type": "AgentConversation",
        "name": view.name,
        "status": _NUMBERS.get(view.state, 1),
        "state": view.state.value,
        "started_at": iso(view.started_at or view.created_at),
        "closed_at": iso(view.ended_at) if view.ended_at else None,
        "execution_duration": _milliseconds(view) if view.ended_at else None,
        "interactive": view.is_interactive,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _names(view: ChildView, names: Mapping[UUID, str]) -> dict[str, Any]:
    return {
        "launch_id": str(view.launch_id),
        "workstream_id": names.get(view.launch_id, view.workstream),
        "name": view.name,
        "kind": "agent",
        "interaction": view.agent_id,
    }


def _running(view: ChildView, names: Mapping[UUID, str], calls: tuple[int, datetime] | None) -> dict[str, Any]:
    child = {"child_workflow_id": f"agent-{view.launch_id}", "child_workflow_run_id": str(view.launch_id)}
    iteration, updated_at = calls or (0, view.started_at or view.created_at)
    shown = _names(view, names)
    progress = {name: shown[name] for name in ("launch_id", "workstream_id")}
    progress |= {"phase": view.phase.value, "iteration": iteration, "updated_at": iso(updated_at)}
    optional = {"current_tool": view.current_tool or None, "percent": _percent(view), "message": _message(view)}
    return {
        **shown,
        **child,
        "status": view.state.value,
        "started_at": iso(view.created_at),
        "elapsed_ms": _milliseconds(view),
        "deadline_ms": view.deadline_seconds * 1000,
        "latest_progress": progress | {name: value for name, value in optional.items() if value is not None},
    }


def _percent(view: ChildView) -> int | None:
    """Return the part of the deadline that has passed; None while it stands still."""
    if view.deadline_at is None or view.is_idle:
        return None
    left = (view.deadline_at - timezone.now()).total_seconds()
    return min(max(round(100 * (1 - left / view.deadline_seconds)), 0), 100)


def _message(view: ChildView) -> str:
    """Return what a workstream does, for people."""
    if view.current_tool:
        return f"Using {view.current_tool}"
    return {"approval": "Waiting for an approval", "input": "Waiting for an answer"}.get(view.asks, "Working")


def _ended(view: ChildView, names: Mapping[UUID, str]) -> dict[str, Any]:
    child = {"child_workflow_id": f"agent-{view.launch_id}", "child_workflow_run_id": str(view.launch_id)}
    texts = {"summary": shorten(view.result, _SUMMARY_CHARACTERS), "error": view.error}
    return {
        **_names(view, names),
        **child,
        "status": view.state.value,
        **{name: text for name, text in texts.items() if text},
        "duration_ms": _milliseconds(view),
        "started_at": iso(view.created_at),
    }


def _milliseconds(view: ChildView) -> int:
    end: datetime = view.ended_at or timezone.now()
    return max(round((end - view.created_at).total_seconds() * 1000), 0)
