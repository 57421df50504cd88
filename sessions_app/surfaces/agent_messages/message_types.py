"""Every type of message, as this server writes it, without its time. Pure.

What is only described by its details here (plans, batches, workstreams, files) has its one spelling in this module.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sessions_app.surfaces.agent_messages.wire_format import Compact, MessageType, create

CONTENT, ACTIVITY = "user_content", "activity"


def question(
    text: str, *, ack: str = "", metadata: Mapping[str, Any] | None = None, request_id: str = "", more: Any = None
) -> Compact:
    """What the person said. ack: their client's id of it; request_id: what it answers; more: further details."""
    details: dict[str, Any] = {"event_class": CONTENT}
    if ack:
        details["ack"] = ack
    if metadata:
        details["metadata"] = dict(metadata)
    if request_id:
        details["request_input_response"] = {"request_id": request_id}
    return create(MessageType.QUESTION, message=text, details={**details, **(more or {})})


def answer(text: str, activity: str, *, is_partial: bool = False) -> Compact:
    details: dict[str, Any] = {"event_class": CONTENT, "activity_id": activity, "streamed": True}
    if is_partial:
        details["partial"] = True
    return create(MessageType.ANSWER, message=text, details=details)


def thinking(text: str, activity: str) -> Compact:
    details = {"display_role": "thinking", "activity_id": activity, "streamed": True}
    return create(MessageType.THOUGHT, message=text, details=details)


def preamble(text: str, activity: str, tools: Sequence[str]) -> Compact:
    """What is said before a tool is called."""
    details = {"display_role": "tool_preamble", "tools": list(tools), "activity_id": activity, "streamed": True}
    return create(MessageType.THOUGHT, message=text, details=details)


def tool(
    event: str, tool_name: str, text: str, *, execution_id: str, call_id: str, group: str, step: int, **more: Any
) -> Compact:
    """One moment of a tool call. event: started | progress | completed | failed; more: input, output, error, …"""
    status = {"started": "running", "progress": "running", "completed": "completed"}.get(event, "error")
    details: dict[str, Any] = {
        "event_class": ACTIVITY,
        "tool": tool_name,
        "tool_event": event,
        "tool_status": status,
        "tool_run_id": execution_id,
        "tool_use_id": call_id,
        "tool_iteration": step,
        "activity_group_id": group,
        **{name: value for name, value in more.items() if value is not None},
    }
    return create(MessageType.THOUGHT, message=text, details=details)


def request_input(
    text: str,
    request_id: str,
    *,
    options: Sequence[Mapping[str, str]] = (),
    variant: str = "default",
    placeholder: str | None = None,
    **more: Any,
) -> Compact:
    """A question to the person. options: {id, label, description?}; placeholder: of the field for own words, None for
    no such field beside options."""
    ux: dict[str, Any] = {"variant": variant}
    if options:
        ux["options"] = [dict(option) for option in options]
    if placeholder is not None:
        ux["free_response"] = {"placeholder": placeholder} if placeholder else {}
    return create(MessageType.REQUEST_INPUT, message=text, details={"request_id": request_id, "ux": ux, **more})


def idle(text: str = "", *, token_usage: Mapping[str, int] | None = None) -> Compact:
    return create(MessageType.IDLE, message=text, details={"token_usage": dict(token_usage)} if token_usage else None)


def stopped(text: str, *, ack: str = "") -> Compact:
    """The person stopped the turn. ack: their client's id of the stop."""
    details = {"status_reason": "user_stopped", "display_role": "user_stopped", **({"ack": ack} if ack else {})}
    return create(MessageType.IDLE, message=text or "Stopped.", details=details)


def complete(text: str, *, token_usage: Mapping[str, int] | None = None) -> Compact:
    details: dict[str, Any] = {"event_class": CONTENT}
    if token_usage:
        details["token_usage"] = dict(token_usage)
    return create(MessageType.COMPLETE, message=text, details=details)


def terminated(reason: str = "") -> Compact:
    return create(MessageType.TERMINATED, message=reason or "Ended from outside.")


def restarting() -> Compact:
    return create(MessageType.RESTARTING, message="Going on where it was left off.")


def error(text: str, code: str = "") -> Compact:
    return create(MessageType.ERROR, message=text, details={"error_code": code} if code else None)


def warning(text: str, **details: Any) -> Compact:
    return create(MessageType.WARNING, message=text, details=details or None)


def approval_decided(text: str, outcome: str, request_id: str, request: Mapping[str, Any], **more: Any) -> Compact:
    """outcome: denied | denied_with_feedback | timeout | cancelled_after_denial | auto_approved (which clients read as
    settled without an answer of theirs)."""
    details = {
        "event_class": ACTIVITY,
        "approval_decision": outcome,
        "approval_request": dict(request),
        "request_id": request_id,
        **more,
    }
    return create(MessageType.UPDATE, message=text, details=details)


def update(text: str, event_class: str, workstream: str = "", **details: Any) -> Compact:
    shown = {"event_class": event_class, **details}
    return create(MessageType.UPDATE, message=text, details=shown, workstream=workstream)


def plan(tasks: Sequence[Mapping[str, Any]], comment: str = "") -> Compact:
    """A whole revision. tasks: {id, goal, instructions?, comment?, status?}; ids count from 1: clients keep no status
    of a task whose id is 0."""
    shown = [
        {**task, "id": number if isinstance(number := task.get("id"), int) and number > 0 else at}
        for at, task in enumerate(tasks, 1)
    ]
    return create(MessageType.PLAN, message=comment or "The plan has changed.", details={"plan": shown})


def batch_progress(batch_id: str, tool_name: str, items: Sequence[Mapping[str, Any]], started_at: int) -> Compact:
    """items: {id, status: pending | running | success | error, message?, duration_ms?}; started_at: milliseconds."""
    done = {name: sum(item.get("status") == name for item in items) for name in ("success", "error")}
    details = {
        "batch_id": batch_id,
        "tool_name": tool_name,
        "total": len(items),
        "completed": done["success"] + done["error"],
        "succeeded": done["success"],
        "failed": done["error"],
        "items": [dict(item) for item in items],
        "started_at": started_at,
    }
    return create(MessageType.BATCH_PROGRESS, message=tool_name, details=details)


def workstream(event: str, text: str, workstream_id: str, launch_id: str, **more: Any) -> Compact:
    """event: launched | completed. Never TERMINATED, which would close the streams of the whole run."""
    details = {
        "event_class": ACTIVITY,
        "workstream_event": event,
        "workstream_id": workstream_id,
        "launch_id": launch_id,
        **{name: value for name, value in more.items() if value is not None},
    }
    return create(MessageType.UPDATE, message=text, details=details, workstream=workstream_id)


def file_snapshot(files: Sequence[Mapping[str, Any]], batch_id: str = "") -> Compact:
    """All files of the conversation as they are now: clients put it in the place of what they had."""
    counts = {
        "pending_count": sum(file["status"] in ("uploading", "processing") for file in files),
        "ready_count": sum(file["status"] == "ready" for file in files),
        "error_count": sum(file["status"] == "error" for file in files),
    }
    details: dict[str, Any] = {"system_type": "file_processing", "files": [dict(file) for file in files], **counts}
    if batch_id:
        details["batch_id"] = batch_id
    return create(MessageType.SYSTEM, details=details)
