"""Messages of events that need no other event and no stored text."""

import json
from collections.abc import Callable
from typing import Any

from agents_app import events as runs
from audit_app.kernel.shorten import one_line
from sessions_app import events as sessions
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.agent_messages import input_requests, message_types
from sessions_app.surfaces.agent_messages.streaming_chunks import activity_of
from sessions_app.surfaces.agent_messages.wire_format import Compact, create
from tools_app import events as tools

LAUNCHED, PROGRESSED, STEERED, ENDED = runs.WORKSTREAM_EVENTS
_LONGEST_LINE = 160


def tool_started(event: SessionEvent) -> Compact:
    payload = tools.TOOL_REQUESTED.payload(event)
    arguments = payload["arguments"]
    line = f": {one_line(json.dumps(arguments, ensure_ascii=False), _LONGEST_LINE)}" if arguments else ""
    return _tool("started", event, payload, f"Using {payload['tool']}{line}", {"input": arguments})


def tool_progress(event: SessionEvent, requested: SessionEvent) -> Compact:
    """Return the progress of a running call, which is not stored. requested: the event with which the call began."""
    payload, call = tools.TOOL_PROGRESS.payload(event), tools.TOOL_REQUESTED.payload(requested)
    percent = None if payload["fraction"] is None else round(payload["fraction"] * 100)
    return _tool("progress", requested, call, payload["text"] or "Working", {"percent": percent})


def _tool_completed(event: SessionEvent) -> Compact:
    payload = tools.TOOL_COMPLETED.payload(event)
    files = _written_files(payload["tool"], payload["output"]) or None
    details = {"output": payload["output"], "duration_ms": payload["duration_ms"], "outputFiles": files}
    return _tool("completed", event, payload, f"{payload['tool']} is done", details)


def _tool_failed(event: SessionEvent) -> Compact:
    payload = tools.TOOL_FAILED.payload(event)
    text = f"{payload['tool']}: {one_line(payload['error'] or payload['status'], _LONGEST_LINE)}"
    details = {"error": payload["error"], "status": payload["status"], "duration_ms": payload["duration_ms"]}
    return _tool("failed", event, payload, text, details)


def _tool(phase: str, event: SessionEvent, payload: tools.ExecutionPayload, text: str, details: Compact) -> Compact:
    execution_id, call_id, step = payload["execution_id"], payload["call_id"], event.step or 0
    ids = {"tool_run_id": execution_id, "tool_use_id": call_id or execution_id, "tool_iteration": step}
    group = {"activity_group_id": activity_of(event.run_id, event.step)}
    return message_types.tool(phase, payload["tool"], text, {**ids, **group, **details})


def _warning(event: SessionEvent) -> Compact:
    payload = tools.WARNING_RAISED.payload(event)
    text = f"What {payload['tool']} returned looks like orders to the agent."
    return message_types.warning(text, kind=payload["kind"], tool=payload["tool"], action=payload["action"])


def _omitted(event: SessionEvent) -> Compact:
    files = sessions.ATTACHMENTS_OMITTED.payload(event)["attachments"]
    text = " ".join(f"The model did not get the file {file['name']}: {file['reason']}." for file in files)
    return message_types.warning(text, kind="attachments_omitted", files=files)


def _plan(event: SessionEvent) -> Compact:
    payload = tools.PLAN_UPDATED.payload(event)
    return message_types.plan(payload["tasks"], payload["comment"])


def _progress(event: SessionEvent) -> Compact:
    payload = tools.PROGRESS_REPORTED.payload(event)
    return message_types.progress(payload["text"], payload["percent"], payload["phase"])


def _batch_progress(event: SessionEvent) -> Compact:
    payload = tools.BATCH_PROGRESS.payload(event)
    items = [{name: value for name, value in item.items() if name != "execution_id"} for item in payload["items"]]
    times = payload["started_at"], payload["completed_at"]
    return message_types.batch_progress(payload["batch_id"], payload["tool"], items, times)


def _workstream(event: SessionEvent) -> Compact:
    payload, workstream, child = event.payload, event.payload["workstream_id"], event.payload.get("run_id")
    phase, status, text = "launched", "running", f"Started {payload.get('name') or workstream}"
    progress: dict[str, Any] = {}
    if event.type == PROGRESSED:
        phase, status, text = "", payload["status"], payload["text"]
        progress = {name: payload.get(name) for name in ("phase", "iteration", "percent")}
        progress["current_tool"] = payload.get("tool") or None
    if event.type == ENDED:
        phase, status = "completed", str(payload.get("status", "completed"))
        text = payload.get("summary") or f"Ended: {status}"
    details = {"launch_id": payload.get("launch_id", workstream), "status": status, "kind": "agent", **progress}
    details |= {"name": payload.get("name") or None, "path": payload.get("path")}
    details |= {"interaction": payload.get("agent_id"), "child_workflow_run_id": child}
    details |= {"child_workflow_id": f"agent-{child}" if child else None}
    return message_types.workstream(phase, text, workstream, details)


def _steered(event: SessionEvent) -> Compact:
    """Return a message or a command of a person to a workstream."""
    payload = runs.WORKSTREAM_STEERED.payload(event)
    workstream, command = payload["workstream_id"], payload["command"]
    if command == "message":
        return {**message_types.question(payload["text"], ack=payload["message_id"]), "w": workstream}
    text = f"{command.replace('_', ' ').capitalize()}: {payload['text']}".removesuffix(": ")
    return message_types.workstream("", text, workstream, {"launch_id": payload["launch_id"], "command": command})


def _citations(event: SessionEvent) -> Compact:
    citations = sessions.CITATIONS_ADDED.payload(event)["citations"]
    return message_types.update(f"{len(citations)} sources", "citations", citations=citations)


def _posted(event: SessionEvent) -> Compact:
    posted = sessions.UPDATE_POSTED.payload(event)
    return create(posted["kind"], posted["text"], workstream=posted["workstream"], details=posted["details"])


# Events whose message depends on nothing else.
MESSAGES: dict[str, Callable[[SessionEvent], Compact]] = {
    tools.TOOL_COMPLETED.name: _tool_completed,
    tools.TOOL_FAILED.name: _tool_failed,
    tools.WARNING_RAISED.name: _warning,
    tools.APPROVAL_DECIDED.name: lambda event: input_requests.approval_outcome(tools.APPROVAL_DECIDED.payload(event)),
    tools.INPUT_REQUESTED.name: lambda event: input_requests.question(tools.INPUT_REQUESTED.payload(event)),
    sessions.UPDATE_POSTED.name: _posted,
    tools.PLAN_UPDATED.name: _plan,
    tools.PROGRESS_REPORTED.name: _progress,
    tools.BATCH_PROGRESS.name: _batch_progress,
    LAUNCHED: _workstream,
    PROGRESSED: _workstream,
    ENDED: _workstream,
    STEERED: _steered,
    sessions.CITATIONS_ADDED.name: _citations,
    sessions.ATTACHMENTS_OMITTED.name: _omitted,
}


def _written_files(tool_name: str, output: Any) -> list[str]:
    """Return the path that a call of `write_artifact` wrote, from its output."""
    if tool_name != "write_artifact" or not isinstance(output, str):
        return []
    try:
        value = json.loads(output)
    except ValueError:
        return []
    path = value.get("path") if isinstance(value, dict) else None
    return [path] if isinstance(path, str) else []
