"""Comparison of stored executions and approvals with the sealed audit entries about them."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from audit_app.chain.verification import Fault
from audit_app.models import AuditEntry
from tools_app.events import APPROVAL_DECIDED, TOOL_COMPLETED, TOOL_FAILED
from tools_app.models import Approval, ToolExecution
from tools_app.receipts import receipts

_ENDS = (TOOL_COMPLETED.audit, TOOL_FAILED.audit)


def find_missing(entries: Sequence[AuditEntry]) -> Iterator[Fault]:
    """Yield a fault for each execution and decision that an entry names and that is missing, or another one now.

    Entries of releases before 0.2 have no receipt: the execution only has to exist.
    """
    yield from _missing_executions(entries)
    yield from _missing_decisions(entries)


def _missing_executions(entries: Sequence[AuditEntry]) -> Iterator[Fault]:
    ended = _by_id(entries, _ENDS, "execution_id")
    stored = dict(ToolExecution.objects.filter(id__in=ended).values_list("id", "receipt"))
    for key, entry in ended.items():
        if key not in stored:
            yield _fault(entry, f"The execution {key} that ended then is missing.")
        elif stored[key] != entry.details.get("receipt", stored[key]):
            yield _fault(entry, f"The execution {key} has another receipt than when it ended.")


def _missing_decisions(entries: Sequence[AuditEntry]) -> Iterator[Fault]:
    decided = _by_id(entries, (APPROVAL_DECIDED.audit,), "approval_id")
    names = ("status", "decision", "decided_by")
    approvals: dict[UUID, Any] = {
        row["id"]: row for row in Approval.objects.filter(id__in=decided).values("id", *names)
    }
    for key, entry in decided.items():
        if key not in approvals:
            yield _fault(entry, f"The approval {key} that was decided then is missing.")
        elif any(approvals[key][name] != entry.details.get(name) for name in names):
            yield _fault(entry, f"The approval {key} was changed after its decision.")


def find_changed(entries: Sequence[AuditEntry]) -> Iterator[Fault]:
    """Yield a fault for each execution that an entry names and that does not match its own receipt."""
    ended = _by_id(entries, _ENDS, "execution_id")
    for row in ToolExecution.objects.filter(id__in=ended).exclude(receipt=""):
        check = receipts.check_stored(row)
        if not check.is_valid:
            yield _fault(ended[row.id], f"Execution {row.id}: {check.reason}")


def _by_id(entries: Sequence[AuditEntry], actions: Sequence[str | None], name: str) -> dict[UUID, AuditEntry]:
    named = ((entry, entry.details.get(name)) for entry in entries if entry.action in actions)
    return {UUID(key): entry for entry, key in named if isinstance(key, str)}


def _fault(entry: AuditEntry, detail: str) -> Fault:
    return Fault(entry.number or 0, detail, entry.at)
