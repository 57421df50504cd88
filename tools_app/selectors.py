"""Reads executions and hands them out as frozen views. Writes nothing."""

from collections.abc import Collection
from uuid import UUID

from django.db.models import QuerySet

from audit_app.kernel.errors import NotFound
from tools_app.models import ToolExecution
from tools_app.types import ExecutionStatus, ExecutionView

OPEN = (ExecutionStatus.PENDING.value, ExecutionStatus.RUNNING.value)


def list_executions(run_id: UUID) -> tuple[ExecutionView, ...]:
    """Every execution of a run, in the order of its steps and of the calls in each."""
    return tuple(view(row) for row in ToolExecution.objects.filter(run_id=run_id).order_by("step", "call_index"))


def list_executions_of(execution_ids: Collection[UUID]) -> tuple[ExecutionView, ...]:
    """The executions with these ids, of whatever runs, oldest first; ids that are unknown are left out."""
    return tuple(view(row) for row in ToolExecution.objects.filter(id__in=execution_ids).order_by("id"))


def get_execution(execution_id: UUID) -> ExecutionView:
    """Raises NotFound."""
    row = ToolExecution.objects.filter(id=execution_id).first()
    if row is None:
        raise NotFound("There is no such tool execution.")
    return view(row)


def has_open(run_id: UUID) -> bool:
    """Whether any execution of the run is pending or running."""
    return open_executions().filter(run_id=run_id).exists()


def open_executions() -> QuerySet[ToolExecution]:
    """Pending and running ones. Usable as a subquery: `Exists(open_executions().filter(run_id=OuterRef("id")))`."""
    return ToolExecution.objects.filter(status__in=OPEN).order_by()


def view(row: ToolExecution) -> ExecutionView:
    """The row as other apps see it."""
    duration = None
    if row.started_at is not None and row.completed_at is not None:
        duration = max((row.completed_at - row.started_at).total_seconds(), 0.0)
    return ExecutionView(
        id=row.id, run_id=row.run_id, session_id=row.session_id, agent_id=row.agent_id, step=row.step,
        call_index=row.call_index, call_id=row.call_id, tool=row.tool, arguments=row.arguments,
        status=ExecutionStatus(row.status), output=row.output, error=row.error, timeout_seconds=row.timeout_seconds,
        created_at=row.created_at, started_at=row.started_at, completed_at=row.completed_at, duration_seconds=duration,
    )  # fmt: skip
