"""The only writer of the status of executions, approvals and questions, by guarded UPDATEs."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import F
from django.db.models.functions import Now

from audit_app.kernel.compiled_queries import CompiledReturning, CompiledUpdate
from tools_app import conf
from tools_app.models import Approval, InputRequest, ToolExecution
from tools_app.receipts import receipts
from tools_app.types import ApprovalStatus, ExecutionStatus
from tools_app.types.questions import InputStatus

PENDING, RUNNING = ExecutionStatus.PENDING, ExecutionStatus.RUNNING

# The statuses from which each status can be reached. Terminal statuses are final.
SOURCES: dict[ExecutionStatus, tuple[ExecutionStatus, ...]] = {
    ExecutionStatus.PENDING: (RUNNING,),
    ExecutionStatus.RUNNING: (PENDING,),
    ExecutionStatus.COMPLETED: (RUNNING,),
    ExecutionStatus.FAILED: (PENDING, RUNNING),
    ExecutionStatus.TIMED_OUT: (RUNNING,),
    ExecutionStatus.CANCELLED: (PENDING, RUNNING),
    ExecutionStatus.UNKNOWN: (RUNNING,),
}


def move(execution_id: UUID, to: ExecutionStatus, *, attempt: int | None = None, **columns: Any) -> bool:
    """Move the execution to a status and set its times by the database's clock; at its end, its receipt.

    attempt: only if this is still the current attempt, so that a process that lost its claim writes nothing.
    columns: other columns to set (owner, output, error).
    Joins the caller's transaction. Returns False if the execution was in another status.
    """
    rows = ToolExecution.objects.filter(id=execution_id, status__in=SOURCES[to])
    if attempt is not None:
        rows = rows.filter(attempts=attempt)
    if rows.update(status=to, **_stamps(to), **columns) != 1:
        return False
    if to.is_terminal:
        row = ToolExecution.objects.filter(id=execution_id)
        row.update(receipt=receipts.sign(row.get()))
    return True


def claim(execution_id: UUID, owner: UUID) -> ToolExecution | None:
    """Start a pending execution in a process, and return it as it is then; None if it does not wait for a process.

    A compiled `move`.
    """
    return _CLAIM.first(execution_id=execution_id, owner=owner)


def end(row: ToolExecution, to: ExecutionStatus, **columns: Any) -> ToolExecution | None:
    """End the attempt of `row`, and return the execution as it is then; None if another process has ended it.

    A `move`, which is compiled for the result of most calls.
    """
    if to is ExecutionStatus.COMPLETED and columns.keys() <= _RESULT:
        columns = {**columns, "origins": columns.get("origins", row.origins)}
        del columns["error"]
        stored = _COMPLETE.first(execution_id=row.id, attempt=row.attempts, **columns)
        if stored is not None:
            stored.receipt = receipts.sign(stored)
            _SIGN.run(execution_id=row.id, receipt=stored.receipt)
        return stored
    if not move(row.id, to, attempt=row.attempts, **columns):
        return None
    return ToolExecution.objects.get(id=row.id)


def settle(approval_id: UUID, to: ApprovalStatus, *, decided_by: str, note: str = "", decision: str = "") -> bool:
    """Decide a pending approval, once. After its expiry it can only expire. Joins the caller's transaction."""
    rows = Approval.objects.filter(id=approval_id, status=ApprovalStatus.PENDING)
    if to in (ApprovalStatus.APPROVED, ApprovalStatus.DENIED):
        rows = rows.filter(expires_at__gt=Now())
    return rows.update(status=to, decided_by=decided_by, note=note, decision=decision, decided_at=Now()) == 1


def allow_first(approval_id: UUID, *, actor: str) -> bool:
    """Record the first of two people who allow a pending request. Return False if somebody was first before."""
    rows = Approval.objects.filter(id=approval_id, status=ApprovalStatus.PENDING, first_allowed_by="")
    return rows.filter(expires_at__gt=Now()).update(first_allowed_by=actor) == 1


def settle_input(request_id: UUID, to: InputStatus, *, answered_by: str, **columns: Any) -> bool:
    """End a pending question, once. After its expiry it can only expire. Joins the caller's transaction.

    columns: other columns to set.
    """
    rows = InputRequest.objects.filter(id=request_id, status=InputStatus.PENDING)
    if to is InputStatus.ANSWERED:
        rows = rows.filter(expires_at__gt=Now())
    return rows.update(status=to, answered_by=answered_by, answered_at=Now(), **columns) == 1


def move_times(by: timedelta) -> None:
    """Move the time limits of open executions, approvals and questions by a time in which no process ran.

    In the caller's transaction; only while no process runs.
    """
    ToolExecution.objects.filter(owner__isnull=False).update(started_at=F("started_at") + by)
    of_clients = ToolExecution.objects.filter(status=PENDING, client_until__isnull=False)
    of_clients.update(client_until=F("client_until") + by, renudge_at=F("renudge_at") + by)
    Approval.objects.filter(status=ApprovalStatus.PENDING).update(expires_at=F("expires_at") + by)
    InputRequest.objects.filter(status=InputStatus.PENDING).update(expires_at=F("expires_at") + by)


def _stamps(to: ExecutionStatus) -> dict[str, Any]:
    if to is RUNNING:
        return {"started_at": Now(), "attempts": F("attempts") + 1, "renudge_at": None}
    if to is PENDING:
        return {"started_at": None, "owner": None, "renudge_at": renudge_at(conf.RENUDGE_SECONDS)}
    return {"completed_at": Now(), "owner": None, "renudge_at": None}


def renudge_at(seconds: float) -> Any:
    """Return a column value: that many seconds from now, by the database's clock."""
    return Now() + timedelta(seconds=seconds)


_RESULT = {"output", "error", "origins"}  # the columns of `_COMPLETE`, which has no error
_CLAIM = CompiledReturning(
    lambda execution_id, owner: (
        # Without a time for the next nudge it waits for a person.
        ToolExecution.objects.filter(id=execution_id, status=PENDING.value, renudge_at__isnull=False),
        {"status": RUNNING.value, "owner": owner, **_stamps(RUNNING)},
    )
)
_COMPLETE = CompiledReturning(
    lambda execution_id, attempt, output, origins: (
        ToolExecution.objects.filter(id=execution_id, status=RUNNING.value, attempts=attempt),
        {
            "status": ExecutionStatus.COMPLETED.value,
            "output": output,
            "error": None,
            "origins": origins,
            **_stamps(ExecutionStatus.COMPLETED),
        },
    )
)
_SIGN = CompiledUpdate(
    lambda execution_id, receipt: (ToolExecution.objects.filter(id=execution_id), {"receipt": receipt})
)
