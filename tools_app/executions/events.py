"""Builds the events of a tool execution: stored, from requested to ended; live only, `tool.started`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from audit_app import services as audit
from audit_app import stream
from audit_app.event_types import EventType, NewEvent, P
from audit_app.kernel import context
from audit_app.kernel.redact import masked_arguments
from audit_app.kernel.shorten import shorten
from tools_app import conf, selectors
from tools_app import events as declared
from tools_app.models import Approval, InputRequest, ToolExecution
from tools_app.run_progress import Batch
from tools_app.types import ExecutionStatus, Report


def requested(row: ToolExecution, *, text_length: int) -> NewEvent:
    """Return the event of a planned call.

    text_length: code points of the step's text before the call, which this event closes.
    """
    payload: declared.ToolRequested = {
        **_names(row),
        "call_index": row.call_index,
        "arguments": _trimmed(masked_arguments(row.arguments)),
        "risk": row.risk,
        "decision": row.decision,
        "text_length": text_length,
    }
    return _event(declared.TOOL_REQUESTED, row, payload)


def approval_requested(row: ToolExecution, approval: Approval, asker: str = "") -> NewEvent:
    """Return the event of a request. asker: name of the workstream that asks, for people."""
    payload: declared.ApprovalRequested = {
        **_names(row),
        "approval_id": str(approval.id),
        "arguments": _trimmed(masked_arguments(row.arguments)),
        "risk": row.risk,
        "reason": approval.reason,
        "expires_at": approval.expires_at.isoformat(),
        "choices": list(approval.choices),
        "run_pattern": _trimmed(approval.run_pattern),
        "pattern": _trimmed(approval.pattern),
        "origins": approval.origins.splitlines(),
        "asked_by": asker,
    }
    return _event(declared.APPROVAL_REQUESTED, row, payload)


def approval_decided(row: ToolExecution, approval: Approval) -> NewEvent:
    """Return the event of a decision. approval: as stored."""
    payload: declared.ApprovalDecided = {
        **_names(row),
        "approval_id": str(approval.id),
        "status": approval.status,
        "decision": approval.decision,
        "decided_by": approval.decided_by,
        "note": _trimmed(approval.note),
    }
    return replace(_event(declared.APPROVAL_DECIDED, row, payload), actor=approval.decided_by)


def input_requested(row: ToolExecution, asked: InputRequest, asker: str = "") -> NewEvent:
    """Return the event of a question. asker: as of `approval_requested`."""
    payload: declared.InputRequested = {
        **_names(row),
        "request_id": str(asked.id),
        "question": _trimmed(asked.question),
        "options": asked.options,
        "questions": _trimmed(asked.questions),
        "allows_text": asked.allows_text,
        "expires_at": asked.expires_at.isoformat(),
        "asked_by": asker,
    }
    return _event(declared.INPUT_REQUESTED, row, payload)


def calls_returned(rows: Sequence[ToolExecution]) -> list[NewEvent]:
    """Return the event of the calls of a step that the client has to make; none if there are none."""
    if not rows:
        return []
    payload: declared.CallsReturned = {
        "execution_ids": [str(row.id) for row in rows],
        "expires_at": rows[0].client_until.isoformat() if rows[0].client_until else "",
    }
    return [_event(declared.CALLS_RETURNED, rows[0], payload)]


def reported(row: ToolExecution, report: Report) -> NewEvent:
    event_type, payload = report
    return _event(event_type, row, {**_names(row), **payload})


def batch_progress(row: ToolExecution, batch: Batch) -> NewEvent:
    payload: declared.BatchProgress = {
        "batch_id": str(row.id),
        "tool": batch.tool,
        "total": batch.total,
        "done": batch.done,
        "failed": batch.failed,
        "items": [item.as_json() for item in batch.items],
        "started_at": batch.started_at,
        "completed_at": batch.completed_at,
    }
    return _event(declared.BATCH_PROGRESS, row, payload)


def record(event: NewEvent) -> None:
    """Audit an event that is neither stored in the timeline nor sent."""
    action = event.type.audit_action(event.payload)
    details = {**event.payload, **event.audit_details, "run_id": str(event.run_id)}
    place: Any = {"agent_id": event.agent_id, "session_id": event.session_id, "session_key": event.session_key}
    audit.record(str(action), details=details, actor=event.actor, **place)


def warned(row: ToolExecution, warning: declared.InjectionWarning) -> NewEvent:
    return _event(declared.WARNING_RAISED, row, {**_names(row), **warning})


def ended(row: ToolExecution) -> NewEvent:
    """Return the event of an end. row: terminal and as stored, times included."""
    view = selectors.view(row)
    took = None if view.duration_seconds is None else round(view.duration_seconds * 1000)
    if view.status is ExecutionStatus.COMPLETED:
        output = _trimmed(row.output or "")
        done: declared.ToolCompleted = {
            **_names(row),
            "status": row.status,
            "output": output,
            "duration_ms": took,
            "origins": list(view.origins),
        }
        return _event_of_end(declared.TOOL_COMPLETED, row, done)
    error = _trimmed(row.error or "")
    failed: declared.ToolFailed = {**_names(row), "status": row.status, "error": error, "duration_ms": took}
    return _event_of_end(declared.TOOL_FAILED, row, failed)


def _event_of_end(event_type: EventType[P], row: ToolExecution, payload: P) -> NewEvent:
    """Return an event whose audit entry has the receipt: the sealed log then proves that the execution existed."""
    return replace(_event(event_type, row, payload), audit_details={"receipt": row.receipt})


def record_started(row: ToolExecution) -> None:
    """Audit the start of an attempt, in the transaction that claims it. row: as stored."""
    with context.bind(request_id=row.request_id):
        audit.record(
            str(declared.TOOL_STARTED.audit),
            details={**_names(row), "attempt": row.attempts, "run_id": str(row.run_id)},
            actor=row.actor,
            agent_id=row.agent_id,
            session_id=row.session_id,
            session_key=row.session_key,
        )


def notify_started(row: ToolExecution) -> None:
    """Send `tool.started` to the viewers that are connected now; it is not stored."""
    stream.send_passing(_event(declared.TOOL_STARTED, row, {"execution_id": str(row.id), "tool": row.tool}))


def _names(row: ToolExecution) -> declared.ExecutionPayload:
    return {"execution_id": str(row.id), "call_id": row.call_id, "tool": row.tool}


def _event(event_type: EventType[P], row: ToolExecution, payload: P) -> NewEvent:
    return NewEvent(
        event_type,
        row.session_id,
        payload,
        run_id=row.run_id,
        parent_run_id=row.parent_run_id,
        workstream=row.workstream,
        step=row.step,
        actor=row.actor,
        agent_id=row.agent_id,
        session_key=row.session_key,
    )


def _trimmed(value: Any) -> Any:
    """Return the JSON value with each long text cut to what an event holds."""
    if isinstance(value, str):
        return shorten(value, conf.MAX_EVENT_CHARACTERS)
    if isinstance(value, dict):
        return {key: _trimmed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_trimmed(item) for item in value]
    return value
