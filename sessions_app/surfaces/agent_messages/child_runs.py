"""Child runs of an agent run: its workstreams as clients poll them, and their records. Synchronous."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from agents_app import selectors as agents
from agents_app.models import Run
from agents_app.types.child_runs import ChildState, ChildView
from audit_app.kernel.errors import NotFound, found
from audit_app.kernel.shorten import shorten
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.base.timestamps import iso

_MOST = 100
_SUMMARY_CHARACTERS = 500
_ACTIVE = (ChildState.RUNNING, ChildState.CANCELING)
_NUMBERS = {ChildState.COMPLETED: 2, ChildState.FAILED: 3, ChildState.TIMEOUT: 3, ChildState.CANCELED: 5}


def active_workstreams(run: AgentRun) -> dict[str, Any]:
    """Return the workstreams that run, and the newest that have ended."""
    views = _views(run)
    return {
        "running": [_running(view) for view in views if view.state in _ACTIVE],
        "completed": [_ended(view) for view in views if view.state not in _ACTIVE],
    }


def list_children(run: AgentRun) -> list[dict[str, Any]]:
    """Return the records of the run's newest child runs, oldest first."""
    return [_record(view) for view in _views(run)]


def child_details(run: AgentRun, child_id: str) -> dict[str, Any]:
    """Return the record of a child run, named by its run or workflow id. Raises NotFound."""
    try:
        key = UUID(child_id.removeprefix("agent-"))
    except ValueError:
        raise NotFound("There is no such child run.") from None
    row = _rows(run).filter(pk=key).first()
    view = agents.child_view(found(row, "There is no such child run."))
    result = {"result": view.result} if view.result else {}
    return {**_record(view), **result, **({"error": {"message": view.error}} if view.error else {})}


def _rows(run: AgentRun) -> Any:
    return Run.objects.select_related("agent").filter(conversation_id=run.session.id, parent__isnull=False)


def _views(run: AgentRun) -> list[ChildView]:
    return [agents.child_view(row) for row in reversed(_rows(run).order_by("-id")[:_MOST])]


def _record(view: ChildView) -> dict[str, Any]:
    shown = {
        **_names(view),
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


def _names(view: ChildView) -> dict[str, Any]:
    return {
        "launch_id": str(view.launch_id),
        "workstream_id": view.workstream,
        "kind": "agent",
        "interaction": view.agent_id,
    }


def _running(view: ChildView) -> dict[str, Any]:
    child = {"child_workflow_id": f"agent-{view.launch_id}", "child_workflow_run_id": str(view.launch_id)}
    progress = {"launch_id": str(view.launch_id), "workstream_id": view.workstream, "phase": view.phase.value}
    tool = {"current_tool": view.current_tool} if view.current_tool else {}
    return {
        **_names(view),
        **child,
        "status": view.state.value,
        "started_at": iso(view.created_at),
        "elapsed_ms": _milliseconds(view),
        "deadline_ms": view.deadline_seconds * 1000,
        "latest_progress": {**progress, **tool, "updated_at": iso(timezone.now())},
    }


def _ended(view: ChildView) -> dict[str, Any]:
    child = {"child_workflow_id": f"agent-{view.launch_id}", "child_workflow_run_id": str(view.launch_id)}
    texts = {"summary": shorten(view.result, _SUMMARY_CHARACTERS), "error": view.error}
    return {
        **_names(view),
        **child,
        "status": view.state.value,
        **{name: text for name, text in texts.items() if text},
        "duration_ms": _milliseconds(view),
        "started_at": iso(view.created_at),
    }


def _milliseconds(view: ChildView) -> int:
    end: datetime = view.ended_at or timezone.now()
    return max(round((end - view.created_at).total_seconds() * 1000), 0)
