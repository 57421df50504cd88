"""Executions of calls as other apps see them, and the texts of their results. Pure."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from tools_app.types.pictures import Picture


class ExecutionStatus(StrEnum):
    """Status of an execution. UNKNOWN: its process died, so the call may have taken effect."""

    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"
    CANCELLED = "Cancelled"
    UNKNOWN = "Unknown"

    @property
    def is_terminal(self) -> bool:
        return self not in (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)


_RECEIPT_LINE = "\n[receipt: "


@dataclass(frozen=True)
class ExecutionView:
    """An execution as other apps see it. output: JSON text of the result, or None."""

    id: UUID
    run_id: UUID
    session_id: UUID
    agent_id: str
    step: int
    call_index: int
    call_id: str
    tool: str
    arguments: dict[str, Any]
    status: ExecutionStatus
    output: str | None
    error: str | None
    timeout_seconds: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    duration_seconds: float | None = field(default=None)
    receipt: str = ""  # empty while open, and for executions older than receipts
    origins: tuple[str, ...] = ()  # of what its result brings into the run, see `policy.taint`
    pictures: tuple[Picture, ...] = ()  # of the result, beside its text
    client_until: datetime | None = (
        None  # of a call of a client's tool: time until which the client may send the output
    )

    @property
    def is_abandoned(self) -> bool:
        """Return whether a client has not sent the output of a call of its tool."""
        return self.client_until is not None and self.status is ExecutionStatus.TIMED_OUT

    @property
    def text_for_model(self) -> str:
        """Return the exact text of the result in the model's history: output or error, then the receipt line."""
        text = result_text(self.status, self.output, self.error)
        return f"{text}{_RECEIPT_LINE}{self.receipt}]" if self.receipt else text


def parsed_output(text: str) -> Any:
    """Return the object or list that an output contains as JSON, else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text


def result_text(status: ExecutionStatus, output: str | None, error: str | None) -> str:
    """Return the text of a tool result in the model's history, without its receipt line.

    Receipts sign this text and recompute it when they are verified: changing it invalidates every receipt issued
    before, unless `receipts.mac` gets a new version.
    """
    if status is ExecutionStatus.COMPLETED:
        return output if output is not None else ""
    return f"[{status}] {error or 'The tool call did not complete.'}"


def without_receipt(text: str) -> str:
    """Return the text of a tool result without its receipt line."""
    body, line, _ = text.rpartition(_RECEIPT_LINE)
    return body if line else text
