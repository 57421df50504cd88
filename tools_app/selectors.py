"""Reads executions and hands them out as frozen views. Writes nothing."""

from collections.abc import Collection
from uuid import UUID

from django.db.models import QuerySet

from audit_app.kernel.errors import NotFound
from tools_app.models import IS_OPEN, Approval, ToolExecution
from tools_app.types import ApprovalStatus, ApprovalView, ExecutionStatus, ExecutionView


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
    return ToolExecution.objects.filter(IS_OPEN).order_by()


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


def get_approval(approval_id: UUID) -> ApprovalView:
    """Raises NotFound."""
    row = Approval.objects.select_related("execution").filter(id=approval_id).first()
    if row is None:
        raise NotFound("There is no such approval.")
    return approval_view(row)


def list_approvals(
    *, status: str = "", session_ids: Collection[UUID] | None = None, limit: int = 50, offset: int = 0
) -> tuple[ApprovalView, ...]:
    """The newest first. status: only those; session_ids: only of these sessions, None for all."""
    rows = Approval.objects.select_related("execution").order_by("-id")
    if status:
        rows = rows.filter(status=status)
    if session_ids is not None:
        rows = rows.filter(execution__session_id__in=session_ids)
    return tuple(approval_view(row) for row in rows[offset : offset + limit])


def has_pending_approval(run_id: UUID) -> bool:
    return Approval.objects.filter(run_id=run_id, status=ApprovalStatus.PENDING).exists()


def approval_view(row: Approval) -> ApprovalView:
    """A frozen view of a row loaded with its execution."""
    execution = row.execution
    return ApprovalView(
        id=row.id, execution_id=execution.id, run_id=row.run_id, session_id=execution.session_id,
        agent_id=execution.agent_id, tool=execution.tool, arguments=execution.arguments, risk=execution.risk,
        reason=row.reason, status=ApprovalStatus(row.status), decided_by=row.decided_by, note=row.note,
        created_at=row.created_at, expires_at=row.expires_at, decided_at=row.decided_at,
    )  # fmt: skip
