"""The tool calls of a run as steps of its message, updated by each event."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.threads.message_parts import status_of
from tools_app import events as tools
from tools_app.types import Decision

_TYPES = (
    tools.TOOL_REQUESTED,
    tools.APPROVAL_REQUESTED,
    tools.APPROVAL_DECIDED,
    tools.INPUT_REQUESTED,
    tools.TOOL_COMPLETED,
    tools.TOOL_FAILED,
)
STORED = frozenset(event_type.name for event_type in _TYPES)

Step = dict[str, Any]


class ToolSteps:
    """The steps of a run so far. allowed_decisions: those that the client may send."""

    def __init__(self, allowed_decisions: Collection[Decision]) -> None:
        self._allowed_decisions = allowed_decisions
        self._steps: dict[str, Step] = {}

    def see(self, event: SessionEvent) -> Step | None:
        """Return the step after an event of STORED; None if its call was requested before the stream begins.

        Of the calls of workstreams, those that ask for an approval have a step, until it is decided.
        """
        at = iso(datetime.fromtimestamp((event.ts or 0) / 1000, UTC))
        execution_id = event.payload["execution_id"]
        if event.type == tools.TOOL_REQUESTED.name:
            self._steps[execution_id] = _begun(tools.TOOL_REQUESTED.payload(event), at)
        elif event.parent_run_id and event.type == tools.APPROVAL_REQUESTED.name:
            asked = tools.APPROVAL_REQUESTED.payload(event)
            self._steps[execution_id] = {**_begun(asked, at), **self._asked(asked)}
        elif execution_id in self._steps:
            step = {name: value for name, value in self._steps[execution_id].items() if name != "approval"}
            self._steps[execution_id] = {**step, **self._changes(event, at)}
        return self._steps.get(execution_id)

    def progress(self, event: SessionEvent) -> Step | None:
        """Return the step with the message of a `tool.progress` event, which is not kept."""
        progress = tools.TOOL_PROGRESS.payload(event)
        step = self._steps.get(progress["execution_id"])
        return {**step, "detail": progress["text"]} if step else None

    def _changes(self, event: SessionEvent, at: str | None) -> Step:
        match event.type:
            case tools.APPROVAL_REQUESTED.name:
                return self._asked(tools.APPROVAL_REQUESTED.payload(event))
            case tools.APPROVAL_DECIDED.name:
                decided = tools.APPROVAL_DECIDED.payload(event)
                note = f" {decided['note']}" if decided["note"] else ""
                detail = f"Approval {decided['status']}.{note}"
                return {"detail": detail, **({"status": "success", "end_time": at} if event.parent_run_id else {})}
            case tools.INPUT_REQUESTED.name:
                return {"detail": tools.INPUT_REQUESTED.payload(event)["question"]}
            case tools.TOOL_COMPLETED.name:
                completed = tools.TOOL_COMPLETED.payload(event)
                return _ended(completed["output"], completed["status"], at, completed["duration_ms"])
        failed = tools.TOOL_FAILED.payload(event)
        return _ended(failed["error"], failed["status"], at, failed["duration_ms"])

    def _asked(self, requested: tools.ApprovalRequested) -> Step:
        return {
            "detail": f"Waiting for approval: {requested['reason']}",
            "approval": {
                "approval_id": requested["approval_id"],
                "reason": requested["reason"],
                "expires_at": requested["expires_at"],
                "choices": [choice for choice in requested["choices"] if choice in self._allowed_decisions],
            },
        }


def _begun(requested: tools.ToolRequested | tools.ApprovalRequested, at: str | None) -> Step:
    return {
        "id": requested["execution_id"],
        "tool_call_id": requested["call_id"],
        "name": requested["tool"],
        "kind": "tool_call",
        "args": requested["arguments"],
        "detail": None,
        "status": "running",
        "start_time": at,
        "end_time": None,
        "duration_ms": None,
    }


def _ended(detail: str, status: str, at: str | None, duration_ms: int | None) -> Step:
    return {"detail": detail, "status": status_of(status), "end_time": at, "duration_ms": duration_ms}
