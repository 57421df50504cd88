"""The tool calls of a run as steps of its message, as they stand after each fact. Pure."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.timestamps import iso
from tools_app.events import (
    APPROVAL_DECIDED,
    APPROVAL_REQUESTED,
    INPUT_REQUESTED,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_PROGRESS,
    TOOL_REQUESTED,
)
from tools_app.types import Decision, ExecutionStatus

_ENDED = (TOOL_COMPLETED.name, TOOL_FAILED.name)
CALL_FACTS = (TOOL_REQUESTED.name, APPROVAL_REQUESTED.name, APPROVAL_DECIDED.name, INPUT_REQUESTED.name, *_ENDED)
PASSING_FACTS = (TOOL_PROGRESS.name,)

Step = dict[str, Any]


def status_of(status: str) -> str:
    """The protocol's word for an execution's status."""
    if status == ExecutionStatus.COMPLETED:
        return "success"
    if status == ExecutionStatus.CANCELLED:
        return "canceled"
    return "running" if status in (ExecutionStatus.PENDING, ExecutionStatus.RUNNING) else "error"


class Calls:
    """Keeps each call of a run that was seen. may_say: all that the reader may say to requests for approval."""

    def __init__(self, allowed_decisions: Collection[Decision]) -> None:
        self._allowed_decisions = allowed_decisions
        self._steps: dict[str, Step] = {}

    def see(self, fact: SessionEvent) -> Step | None:
        """The step after a fact of CALL_FACTS; None for a call whose beginning was not seen."""
        payload, at = fact.payload, iso(datetime.fromtimestamp((fact.ts or 0) / 1000, UTC))
        execution_id = payload["execution_id"]
        if fact.type == TOOL_REQUESTED.name:
            self._steps[execution_id] = {
                "id": execution_id,
                "tool_call_id": payload["call_id"],
                "name": payload["tool"],
                "kind": "tool_call",
                "args": payload["arguments"],
                "detail": None,
                "status": "running",
                "start_time": at,
                "end_time": None,
                "duration_ms": None,
            }
            return self._steps[execution_id]
        step = self._steps.get(execution_id)
        if step is None:
            return None
        changed = {name: value for name, value in step.items() if name != "approval"}
        match fact.type:
            case APPROVAL_REQUESTED.name:
                told = {name: payload[name] for name in ("approval_id", "reason", "expires_at")}
                choices = [choice for choice in payload["choices"] if choice in self._allowed_decisions]
                changed |= {
                    "detail": f"Waits for a person's approval: {payload['reason']}",
                    "approval": {**told, "choices": choices},
                }
            case APPROVAL_DECIDED.name:
                changed["detail"] = f"Approval {payload['status']}." + (
                    f" {payload['note']}" if payload["note"] else ""
                )
            case INPUT_REQUESTED.name:
                changed["detail"] = payload["question"]
            case _:
                changed |= {
                    "detail": payload.get("output", payload.get("error")),
                    "status": status_of(payload["status"]),
                    "end_time": at,
                    "duration_ms": payload["duration_ms"],
                }
        self._steps[execution_id] = changed
        return changed

    def pass_by(self, fact: SessionEvent) -> Step | None:
        """The step with what the tool says meanwhile."""
        step = self._steps.get(fact.payload["execution_id"])
        return {**step, "detail": fact.payload["text"]} if step else None
