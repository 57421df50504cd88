"""Cancels executions: the row first, then, after commit, the process that runs it."""

from uuid import UUID

from django.db import transaction

from audit_app import services as audit
from audit_app.event_types import NewEvent
from tools_app import selectors
from tools_app.executions import events, nudges
from tools_app.executions.approvals import withdraw_approval
from tools_app.executions.transitions import move
from tools_app.executions.user_input import withdraw_input
from tools_app.models import ToolExecution
from tools_app.types import ExecutionStatus


def cancel_executions(run_id: UUID, *, reason: str) -> list[NewEvent]:
    """Cancel every open execution of a run, in the caller's transaction. Returns the events for the caller to emit.

    reason: one sentence for the model.
    Sends no nudge, because the caller ends the run. Idempotent.
    """
    rows = selectors.open_executions().filter(run_id=run_id).order_by("id")
    cancelled = [row for row in rows if _cancel(row, reason)]
    nudges.stop(cancelled)
    return [event for row in cancelled for event in (*withdraw_approval(row), events.ended(row))]


def cancel_execution(execution_id: UUID) -> bool:
    """Cancel one execution. Owns its transaction. Returns whether it was open.

    Its run continues: the result for the model is that the call was cancelled.
    """
    with transaction.atomic():
        row = selectors.open_executions().filter(id=execution_id).first()
        if row is None or not _cancel(row, "A user cancelled this call."):
            return False
        audit.emit([*withdraw_approval(row), events.ended(row)])
        nudges.nudge_if_done(row)
        nudges.stop([row])
        return True


def _cancel(row: ToolExecution, reason: str) -> bool:
    if not move(row.id, ExecutionStatus.CANCELLED, error=reason):
        return False
    withdraw_input(row)
    row.refresh_from_db()
    return True
