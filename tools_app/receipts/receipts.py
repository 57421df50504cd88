"""Receipts of stored executions: signed when they end, checked later against what is stored then."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from audit_app.pagination import first_id_at
from tools_app import conf
from tools_app.models import ToolExecution
from tools_app.receipts.mac import CallState, find_fault, make_receipt, parse
from tools_app.types import ExecutionStatus, result_text

_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class Verdict:
    """reason: one sentence, also for a valid one; execution_id: the execution it speaks of, if that exists."""

    is_valid: bool
    execution_id: UUID | None
    reason: str


_GOOD = "The record is as it was when the call ended."
UNKNOWN = Verdict(False, None, "There is no such execution.")
_NONE = "The execution has no receipt: it is older than receipts, or has not ended."


def sign(row: ToolExecution) -> str:
    """The receipt of an execution that has ended. The row must hold what is stored, times as the database has them."""
    return make_receipt(_events(row), conf.receipt_keys())


def verify_receipt(text: str) -> Verdict:
    """Whether a receipt, as the model or a client has it, proves the stored execution that it names."""
    receipt = parse(text)
    if receipt is None:
        return Verdict(False, None, "This is not a receipt: one reads kr1.<key>.<execution>.<code>.")
    row = ToolExecution.objects.filter(id=receipt.execution_id).first()
    if row is None:
        return UNKNOWN
    fault = find_fault(receipt, _events(row), conf.receipt_keys())
    return Verdict(not fault, row.id, fault or _GOOD)


def check_stored(row: ToolExecution) -> Verdict:
    """Whether the stored execution is still the one that its own receipt was made for."""
    if not row.receipt:
        return Verdict(False, row.id, _NONE)
    receipt = parse(row.receipt)
    fault = find_fault(receipt, _events(row), conf.receipt_keys()) if receipt else "Its receipt is damaged."
    return Verdict(not fault, row.id, fault or _GOOD)


def ended_executions(since: datetime | None = None) -> Iterator[ToolExecution]:
    """Every execution that has ended, or those asked for since then, oldest first; streamed, a few in memory."""
    rows = ToolExecution.objects.exclude(completed_at=None).order_by("id")
    if since is not None:
        rows = rows.filter(id__gte=first_id_at(since))
    return rows.iterator(chunk_size=_ROWS_AT_ONCE)


def _events(row: ToolExecution) -> CallState:
    status = ExecutionStatus(row.status)
    return CallState(
        execution_id=row.id,
        run_id=row.run_id,
        tool=row.tool,
        arguments=row.arguments,
        status=status.value,
        text=result_text(status, row.output, row.error),
        created_at=row.created_at,
        started_at=row.started_at,
        completed_at=row.completed_at,
    )
