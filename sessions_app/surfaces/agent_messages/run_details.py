"""An agent run as the record of a workflow: its status by number, and its history in three formats. Synchronous."""

from datetime import UTC, datetime
from typing import Any

from agents_app import selectors as agents
from agents_app.events import RUN_FAILED, RUN_TIMED_OUT
from agents_app.models import IS_ROOT, Run
from agents_app.types import StepView
from audit_app import timeline
from audit_app.timeline import KeptEvent
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from sessions_app.surfaces.agent_messages.child_runs import list_children
from sessions_app.surfaces.base.timestamps import iso
from tools_app import selectors as tools
from tools_app.types import ExecutionStatus, ExecutionView

FORMATS = ("events", "tasks", "agent")
_NEWEST_RUNS = 100
_NUMBERS = {"created": 1, "running": 1, "completed": 2, "failed": 3, "cancelled": 5}
_TASK_STATUS = {
    ExecutionStatus.PENDING: "scheduled",
    ExecutionStatus.RUNNING: "running",
    ExecutionStatus.COMPLETED: "completed",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.TIMED_OUT: "timed_out",
    ExecutionStatus.CANCELLED: "canceled",
    ExecutionStatus.UNKNOWN: "failed",
}


def workflow_run(run: AgentRun) -> dict[str, Any]:
    session, closed_at = run.session, run.completed_at
    shown = {
        "status": _NUMBERS[run.status],
        "type": "AgentConversation",
        "started_at": iso(session.created_at),
        "closed_at": closed_at,
        "run_id": run.id,
        "workflow_id": run.workflow_id,
        "initiated_by": f"user:{session.owner_id}",
        "interaction_name": run.interaction,
        "has_reported_errors": bool(run.error_message),
        "topic": run.metadata.get("topic") or session.title or None,
        "visibility": run.request.get("visibility", "private"),
        "activity_state": run.activity,
        "interactive": run.is_interactive,
        "execution_duration": _duration_ms(session.created_at, closed_at),
    }
    return {name: value for name, value in shown.items() if value is not None or name == "closed_at"}


def _duration_ms(started: datetime, closed_at: str | None) -> int | None:
    if not closed_at:
        return None
    return max(round((datetime.fromisoformat(closed_at) - started).total_seconds() * 1000), 0)


def run_details(run: AgentRun, history: str = "") -> dict[str, Any]:
    """Return the record. history: one of FORMATS, or empty for none."""
    shown = {**workflow_run(run), "input": run.request.get("data"), "children": list_children(run)}
    if run.error_message and run.status == "failed":
        shown["error"] = {"message": run.error_message}
    pending = [execution for execution in _executions(run) if not execution.status.is_terminal]
    shown["pendingActivities"] = [_activity(execution) for execution in pending]
    if history == "events":
        shown["history"] = {"type": "events", "events": [history_event(event) for event in _events(run)]}
    elif history == "tasks":
        shown["history"] = {"type": "tasks", "tasks": [_task(execution) for execution in _executions(run)]}
    elif history == "agent":
        shown["history"] = {"type": "agent", "agentTasks": _agent_tasks(run)}
    return shown


def _activity(execution: ExecutionView) -> dict[str, Any]:
    return {
        "activityId": str(execution.id),
        "activityType": execution.tool,
        "attempt": 1,
        "maximumAttempts": 1,
        "lastStartedTime": iso(execution.started_at),
    }


def history_event(event: KeptEvent | SessionEvent) -> dict[str, Any]:
    """Return a kept event in the format of a workflow's history."""
    payload, at = event.payload, datetime.fromtimestamp((event.ts or 0) / 1000, UTC)
    shown: dict[str, Any] = {"event_id": event.seq, "event_time": iso(at), "event_type": event.type, "attempt": 1}
    if "tool" in payload:
        shown["activity"] = {"name": payload["tool"], "id": payload.get("execution_id", "")}
        shown["task_id"] = payload.get("execution_id", "")
    if event.parent_run_id:
        shown |= {"parent_run_id": str(event.parent_run_id), "workstream_id": event.workstream}
    if payload.get("error"):
        shown["error"] = {"message": payload["error"]}
    elif event.type in (RUN_FAILED.name, RUN_TIMED_OUT.name):
        end = RUN_FAILED.payload(event)
        shown["error"] = {"message": end["message"], "type": end["code"]}
    return shown


def interaction(run: AgentRun) -> dict[str, Any]:
    repeated = ("tool_approval_mode", "data", "collection_id", "disabled_mcp_collections")
    variables = {
        "type": "conversation",
        "interaction": run.interaction,
        "interactive": run.is_interactive,
        "tool_names": run.request.get("tool_names", []),
        "config": run.request.get("config", {}),
        "agent_run_id": run.id,
        **{name: run.request[name] for name in repeated if name in run.request},
    }
    return {"workflow_id": run.workflow_id, "run_id": run.id, "interaction": variables}


def _events(run: AgentRun) -> list[KeptEvent]:
    found: list[KeptEvent] = []
    while page := timeline.list_events(run.session.id, after=found[-1].seq if found else 0):
        found += page
    return found


def _run_ids(run: AgentRun) -> list[Any]:
    rows = Run.objects.filter(IS_ROOT, conversation_id=run.session.id).order_by("-ordinal").values_list("pk", flat=True)
    return list(reversed(rows[:_NEWEST_RUNS]))


def _executions(run: AgentRun) -> list[ExecutionView]:
    return [execution for run_id in _run_ids(run) for execution in tools.list_executions(run_id)]


def _task(execution: ExecutionView) -> dict[str, Any]:
    return {
        "type": "activity",
        "activityId": str(execution.id),
        "activityName": execution.tool,
        "input": execution.arguments,
        "scheduled": iso(execution.created_at),
        "started": iso(execution.started_at),
        "completed": iso(execution.completed_at),
        "status": _TASK_STATUS[execution.status],
        "attempts": 1,
        "error": execution.error,
        "result": execution.output,
        "runId": str(execution.run_id),
    }


def _agent_tasks(run: AgentRun) -> list[dict[str, Any]]:
    tasks = []
    for run_id in _run_ids(run):
        executions = tools.list_executions(run_id)
        for step in agents.list_steps(run_id):
            tasks.append(_llm_call(str(run_id), step))
            tasks += [_tool_call(execution) for execution in executions if execution.step == step.index]
    return tasks


def _llm_call(run_id: str, step: StepView) -> dict[str, Any]:
    return {
        "taskType": "llm_call",
        "toolName": "llm",
        "iteration": step.index,
        **dict.fromkeys(("scheduled_at", "started_at", "completed_at")),
        "status": "completed",
        "result": step.text,
        "finish_reason": step.finish_reason,
        "runId": run_id,
    }


def _tool_call(execution: ExecutionView) -> dict[str, Any]:
    tool, is_open = execution.tool, not execution.status.is_terminal
    shown = {
        "taskType": "tool_call",
        "toolName": tool,
        "toolUseId": execution.call_id,
        "toolRunId": str(execution.id),
        "toolType": "remote" if tool.startswith("mcp__") else "skill" if tool.startswith("skill__") else "builtin",
        "iteration": execution.step,
        "scheduled_at": iso(execution.created_at),
        "started_at": iso(execution.started_at),
        "completed_at": iso(execution.completed_at),
        "status": "running" if is_open else "completed" if execution.status is ExecutionStatus.COMPLETED else "error",
        "parameters": execution.arguments,
        "runId": str(execution.run_id),
    }
    if execution.output is not None:
        shown["result"] = execution.output
    if execution.error:
        shown["error"] = {"type": execution.status.value, "message": execution.error}
    return shown
