"""Builders of messages in the wire form, one for each type, without `ts`. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType, Compact, Details, create, without_none

CONTENT, ACTIVITY = "user_content", "activity"


def question(
    text: str, *, ack: str = "", metadata: Mapping[str, Any] | None = None, request_id: str = "", more: Any = None
) -> Compact:
    """Return a message of the user.

    ack: the client's id of the message.
    request_id: the input request that it answers.
    more: additional details.
    """
    details = {
        "event_class": CONTENT,
        "ack": ack or None,
        "metadata": dict(metadata) if metadata else None,
        "request_input_response": {"request_id": request_id} if request_id else None,
    }
    return create(AgentMessageType.QUESTION, message=text, details={**without_none(details), **(more or {})})


def answer(text: str, activity: str, *, is_partial: bool = False) -> Compact:
    details = {"event_class": CONTENT, "activity_id": activity, "streamed": True, "partial": is_partial or None}
    return create(AgentMessageType.ANSWER, text, details=without_none(details))


def thinking(text: str, activity: str) -> Compact:
    details = {"display_role": "thinking", "activity_id": activity, "streamed": True}
    return create(AgentMessageType.THOUGHT, message=text, details=details)


def preamble(text: str, activity: str, tools: Sequence[str]) -> Compact:
    """Return the text that precedes a step's tool calls."""
    details = {"display_role": "tool_preamble", "tools": list(tools), "activity_id": activity, "streamed": True}
    return create(AgentMessageType.THOUGHT, message=text, details=details)


def tool(phase: str, tool_name: str, text: str, details: Details) -> Compact:
    """Return one phase of a tool call. phase: started | progress | completed | failed."""
    status = {"started": "running", "progress": "running", "completed": "completed"}.get(phase, "error")
    shown = {"event_class": ACTIVITY, "tool": tool_name, "tool_event": phase, "tool_status": status, **details}
    return create(AgentMessageType.THOUGHT, message=text, details=without_none(shown))


def request_input(
    text: str,
    request_id: str,
    *,
    options: Sequence[Mapping[str, str]] = (),
    free_response: Mapping[str, Any] | None = None,
    variant: str = "default",
    is_multiple: bool = False,
    **more: Any,
) -> Compact:
    """Return a question to the user.

    options: {id, label, description?}.
    free_response: the field for a text answer, None for no such field.
    is_multiple: several options may be chosen.
    """
    shown = [dict(option) for option in options] or None
    ux = {"variant": variant, "options": shown, "multiSelect": is_multiple or None, "free_response": free_response}
    details = {"request_id": request_id, "ux": without_none(ux), **more}
    return create(AgentMessageType.REQUEST_INPUT, message=text, details=details)


def idle(text: str = "", *, token_usage: Mapping[str, int] | None = None) -> Compact:
    details = {"token_usage": dict(token_usage)} if token_usage else None
    return create(AgentMessageType.IDLE, message=text, details=details)


def stopped(text: str, *, ack: str = "") -> Compact:
    """Return the end of a turn that the user stopped. ack: the client's id of the stop."""
    details = {"status_reason": "user_stopped", "display_role": "user_stopped", **({"ack": ack} if ack else {})}
    return create(AgentMessageType.IDLE, message=text or "Stopped.", details=details)


def complete(text: str, *, token_usage: Mapping[str, int] | None = None) -> Compact:
    details = {"event_class": CONTENT, "token_usage": dict(token_usage) if token_usage else None}
    return create(AgentMessageType.COMPLETE, message=text, details=without_none(details))


def terminated(reason: str = "") -> Compact:
    return create(AgentMessageType.TERMINATED, message=reason or "Ended from outside.")


def restarting() -> Compact:
    return create(AgentMessageType.RESTARTING, message="Going on where it was left off.")


def error(text: str, code: str = "") -> Compact:
    return create(AgentMessageType.ERROR, message=text, details={"error_code": code} if code else None)


def warning(text: str, **details: Any) -> Compact:
    return create(AgentMessageType.WARNING, message=text, details=details or None)


def update(text: str, event_class: str, workstream: str = "", **details: Any) -> Compact:
    details = {"event_class": event_class, **details}
    return create(AgentMessageType.UPDATE, message=text, details=details, workstream=workstream)


def plan(tasks: Sequence[Mapping[str, Any]], comment: str = "") -> Compact:
    """Return a whole revision of a plan.

    tasks: {id, goal, instructions?, comment?, status?}; ids count from 1: clients do not keep the status of a task
    whose id is 0.
    """
    shown = [
        {**task, "id": number if isinstance(number := task.get("id"), int) and number > 0 else at}
        for at, task in enumerate(tasks, 1)
    ]
    return create(AgentMessageType.PLAN, message=comment or "The plan has changed.", details={"plan": shown})


def progress(text: str, percent: int | None, phase: str) -> Compact:
    details = without_none({"event_class": "progress", "percent": percent, "phase": phase or None})
    return create(AgentMessageType.UPDATE, message=f"{phase}: {text}" if phase else text, details=details)


def batch_progress(
    batch_id: str, tool_name: str, items: Sequence[Mapping[str, Any]], times: tuple[int, int | None]
) -> Compact:
    """Return the state of a batch. times: of its start and end, in milliseconds since 1970.

    items: {id, status: pending | running | success | error, message?, duration_ms?}.
    """
    started_at, completed_at = times
    count = Counter(item.get("status") for item in items)
    details = {
        "batch_id": batch_id,
        "tool_name": tool_name,
        "total": len(items),
        "completed": count["success"] + count["error"],
        "succeeded": count["success"],
        "failed": count["error"],
        "items": [dict(item) for item in items],
        "started_at": started_at,
        "completed_at": completed_at,
    }
    return create(AgentMessageType.BATCH_PROGRESS, message=tool_name, details=without_none(details))


def workstream(phase: str, text: str, workstream_id: str, details: Details) -> Compact:
    """Return a change of a workstream. phase: launched | completed; empty in between."""
    # An UPDATE and never TERMINATED, which would close the streams of the whole run.
    shown = without_none({"workstream_event": phase or None, "workstream_id": workstream_id, **details})
    return update(text, ACTIVITY, workstream_id, **shown)


def file_snapshot(files: Sequence[Mapping[str, Any]], batch_id: str = "") -> Compact:
    """Return the present state of all files of the conversation, which replaces the state that clients have."""
    count = Counter(file["status"] for file in files)
    details = {
        "system_type": "file_processing",
        "files": [dict(file) for file in files],
        "pending_count": count["uploading"] + count["processing"],
        "ready_count": count["ready"],
        "error_count": count["error"],
        "batch_id": batch_id or None,
    }
    return create(AgentMessageType.SYSTEM, details=without_none(details))
