"""Cancels executions: the row first, then, after commit, the process that runs it."""

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction

from audit_app import services as audit
from audit_app.event_types import NewEvent
from tools_app import selectors
from tools_app.executions import batches, nudges
from tools_app.executions.approvals import withdraw_approval
from tools_app.executions.transitions import move
from tools_app.executions.user_input import withdraw_input
from tools_app.models import ToolExecution
from tools_app.run_progress import BATCH
from tools_app.types import ExecutionStatus


def cancel_executions(run_id: UUID, *, reason: str) -> list[NewEvent]:
    """Cancel every open execution of a run, in the caller's transaction. Returns the events for the caller to emit.

    reason: one sentence for the model.
    Sends no nudge, because the caller ends the run. Idempotent.
    """
    rows = selectors.open_executions().filter(run_id=run_id).order_by("id")
    cancelled = [row for row in rows if _cancel(row, reason)]
    nudges.stop(cancelled)
    return _events_of(cancelled)


def cancel_execution(execution_id: UUID) -> bool:
    """Cancel one execution. Owns its transaction. Returns whether it was open.

    Its run continues: the result for the model is that the call was cancelled. Of a batch, all open items end, too.
    """
    with transaction.atomic():
        row = selectors.open_executions().filter(id=execution_id).first()
        if row is None:
            return False
        batches.lock(row)
        if not _cancel(row, "A user cancelled this call."):
            return False
        items = selectors.open_executions().filter(batch_id=row.pk).order_by("id")
        cancelled = [row, *(item for item in items if _cancel(item, "A user cancelled the batch."))]
        audit.emit(_events_of(cancelled))
        batches.item_ended(row)
        nudges.stop(cancelled)
        return True


def _events_of(cancelled: Sequence[ToolExecution]) -> list[NewEvent]:
    """Return the events of executions that were cancelled together; the last one of a batch has all its items."""
    progress = [batches.progress(row) for row in cancelled if row.tool == BATCH]
    return [*progress, *(event for row in cancelled for event in (*withdraw_approval(row), *batches.ended(row)))]


def _cancel(row: ToolExecution, reason: str) -> bool:
    if not move(row.id, ExecutionStatus.CANCELLED, error=reason):
        return False
    withdraw_input(row)
    row.refresh_from_db()
    return True
