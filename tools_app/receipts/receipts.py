"""Receipts of stored executions: signed when they end, verified against the stored row later."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings

from audit_app.kernel.ids import first_id_at
from tools_app.models import ToolExecution
from tools_app.receipts.mac import CallState, find_fault, make_receipt, parse
from tools_app.types import ExecutionStatus, result_text, view_of

_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class ReceiptCheck:
    """Result of a verification.

    reason: one sentence.
    execution_id: the execution that the receipt names, if any.
    """

    is_valid: bool
    execution_id: UUID | None
    reason: str


_GOOD = "The record is unchanged since the call ended."
UNKNOWN = ReceiptCheck(False, None, "There is no such execution.")
_NONE = "The execution has no receipt: it predates receipts, or has not ended."


def sign(row: ToolExecution) -> str:
    """Return the receipt of an execution that has ended. The row must be as stored, with the database's times."""
    return make_receipt(_call_state(row), settings.KOMAND_RECEIPT_KEYS)


def verify_receipt(text: str) -> ReceiptCheck:
    """Check whether a receipt, as a model or client quotes it, proves the stored execution that it names."""
    receipt = parse(text)
    if receipt is None:
        return ReceiptCheck(False, None, "This is not a receipt. A receipt has the form kr1.<key>.<execution>.<code>.")
    row = ToolExecution.objects.filter(id=receipt.execution_id).first()
    if row is None:
        return UNKNOWN
    fault = find_fault(receipt, _call_state(row), settings.KOMAND_RECEIPT_KEYS)
    return ReceiptCheck(not fault, row.id, fault or _GOOD)


def check_stored(row: ToolExecution) -> ReceiptCheck:
    """Check whether the stored execution matches its own receipt."""
    if not row.receipt:
        return ReceiptCheck(False, row.id, _NONE)
    receipt = parse(row.receipt)
    fault = (
        find_fault(receipt, _call_state(row), settings.KOMAND_RECEIPT_KEYS) if receipt else "Its receipt is damaged."
    )
    return ReceiptCheck(not fault, row.id, fault or _GOOD)


def ended_executions(since: datetime | None = None) -> Iterator[ToolExecution]:
    """Yield the executions that have ended, created since `since` if given, oldest first, a few in memory."""
    rows = ToolExecution.objects.exclude(completed_at=None).order_by("id")
    if since is not None:
        rows = rows.filter(id__gte=first_id_at(since))
    return rows.iterator(chunk_size=_ROWS_AT_ONCE)


def _call_state(row: ToolExecution) -> CallState:
    status = ExecutionStatus(row.status)
    text = result_text(status, row.output, row.error)
    return view_of(CallState, row, execution_id=row.id, status=status.value, text=text)
