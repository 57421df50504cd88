"""Builds the events of a tool execution: stored, from requested to ended; live only, `tool.started`."""

from dataclasses import replace
from typing import Any

from audit_app import stream
from audit_app.event_types import EventType, NewEvent, P
from audit_app.kernel.shorten import shorten
from tools_app import conf, selectors
from tools_app.events import (
    APPROVAL_DECIDED,
    APPROVAL_REQUESTED,
    INPUT_REQUESTED,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_REQUESTED,
    TOOL_STARTED,
    WARNING_RAISED,
    ExecutionPayload,
    InjectionWarning,
)
from tools_app.models import Approval, InputRequest, ToolExecution
from tools_app.types import ExecutionStatus


def requested(row: ToolExecution, *, text_length: int) -> NewEvent:
    """text_length: code points of the step's text before the call, which this event closes."""
    return _event(
        TOOL_REQUESTED,
        row,
        {
            **_names(row),
            "call_index": row.call_index,
            "arguments": _trimmed(row.arguments),
            "risk": row.risk,
            "decision": row.decision,
            "text_length": text_length,
        },
    )


def approval_requested(row: ToolExecution, approval: Approval) -> NewEvent:
    return _event(
        APPROVAL_REQUESTED,
        row,
        {
            **_names(row),
            "approval_id": str(approval.id),
            "arguments": _trimmed(row.arguments),
            "risk": row.risk,
            "reason": approval.reason,
            "expires_at": approval.expires_at.isoformat(),
            "choices": list(approval.choices),
            "run_pattern": _trimmed(approval.run_pattern),
            "pattern": _trimmed(approval.pattern),
        },
    )


def approval_decided(row: ToolExecution, approval: Approval) -> NewEvent:
    """The approval must be as stored."""
    event = _event(
        APPROVAL_DECIDED,
        row,
        {
            **_names(row),
            "approval_id": str(approval.id),
            "status": approval.status,
            "decision": approval.decision,
            "decided_by": approval.decided_by,
            "note": _trimmed(approval.note),
        },
    )
    return replace(event, actor=approval.decided_by)


def input_requested(row: ToolExecution, asked: InputRequest) -> NewEvent:
    return _event(
        INPUT_REQUESTED,
        row,
        {
            **_names(row),
            "request_id": str(asked.id),
            "question": _trimmed(asked.question),
            "options": asked.options,
            "allows_text": asked.allows_text,
            "expires_at": asked.expires_at.isoformat(),
        },
    )


def warned(row: ToolExecution, warning: InjectionWarning) -> NewEvent:
    return _event(WARNING_RAISED, row, {**_names(row), **warning})


def ended(row: ToolExecution) -> NewEvent:
    """The row must be terminal and as stored, times included."""
    view = selectors.view(row)
    duration_ms = None if view.duration_seconds is None else round(view.duration_seconds * 1000)
    if view.status is ExecutionStatus.COMPLETED:
        output = _trimmed(row.output or "")
        return _event(
            TOOL_COMPLETED, row, {**_names(row), "status": row.status, "output": output, "duration_ms": duration_ms}
        )
    error = _trimmed(row.error or "")
    return _event(TOOL_FAILED, row, {**_names(row), "status": row.status, "error": error, "duration_ms": duration_ms})


def notify_started(row: ToolExecution) -> None:
    """Send `tool.started` to the viewers that are connected now; it is not stored."""
    stream.send_passing(_event(TOOL_STARTED, row, {"execution_id": str(row.id), "tool": row.tool}))


def _names(row: ToolExecution) -> ExecutionPayload:
    return {"execution_id": str(row.id), "call_id": row.call_id, "tool": row.tool}


def _event(event_type: EventType[P], row: ToolExecution, payload: P) -> NewEvent:
    return NewEvent(
        event_type,
        row.session_id,
        payload,
        run_id=row.run_id,
        step=row.step,
        actor=row.actor,
        agent_id=row.agent_id,
        session_key=row.session_key,
    )


def _trimmed(value: Any) -> Any:
    """The JSON value with each long text cut to what an event holds."""
    if isinstance(value, str):
        return shorten(value, conf.MAX_EVENT_CHARACTERS)
    if isinstance(value, dict):
        return {key: _trimmed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_trimmed(item) for item in value]
    return value
