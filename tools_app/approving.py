"""Approvals: a request to a person, stored beside the execution that waits for it, and its one decision.

A decision by a person, by the clock or by a cancelled run all pass the same guarded update, so the first one counts.
"""

import json
from datetime import timedelta
from hashlib import sha256
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from audit_app import services as audit
from audit_app.kernel.errors import Conflict, NotFound
from audit_app.vocabulary import Fact
from tools_app import bell, conf, facts, selectors
from tools_app.models import Approval, ToolExecution
from tools_app.transitions import move, ring_at, settle
from tools_app.types import ApprovalStatus, ApprovalView, ExecutionStatus

_AT_ONCE = 100


class AlreadyDecided(Conflict):
    """This request has been decided already."""

    code = "already_decided"


class ApprovalExpired(Conflict):
    """This request has expired; the agent was told that nobody answered."""

    code = "approval_expired"


def request_approval(row: ToolExecution, reason: str) -> Approval:
    """Store the request for an execution that was planned in this transaction. It binds the arguments as shown, and
    expires by the database's clock."""
    approval = Approval(
        execution=row, run_id=row.run_id, digest=digest_of(row), reason=reason[:200], created_at=timezone.now(),
        expires_at=Now() + timedelta(minutes=conf.approval_minutes()),
    )  # fmt: skip
    approval.save(force_insert=True)
    approval.refresh_from_db(fields=["expires_at"])
    return approval


def decide_approval(approval_id: UUID, *, approve: bool, actor: str, note: str = "") -> ApprovalView:
    """A person's decision, in the caller's transaction: the call runs, or the model is told that it was denied.

    actor: who decides; note: one sentence for the model and the record. Raises NotFound, AlreadyDecided (with the
    first decision in `extra`), ApprovalExpired. Whether the person may decide is the caller's to know.
    """
    with transaction.atomic():
        approval = Approval.objects.select_related("execution").filter(id=approval_id).first()
        if approval is None:
            raise NotFound("There is no such approval.")
        to = ApprovalStatus.APPROVED if approve else ApprovalStatus.DENIED
        if not settle(approval.id, to, decided_by=actor, note=note):
            raise _too_late(approval_id)
        said = f": {note}" if note else "."
        audit.emit(_carry_out(approval, "A person denied this call" + said))
        bell.ring_if_done(approval.execution)
        return selectors.get_approval(approval_id)


def expire_approvals() -> None:
    """One pass of the sweeper: requests whose time is over count as denied."""
    due = Approval.objects.select_related("execution").filter(status=ApprovalStatus.PENDING, expires_at__lte=Now())
    for approval in due.order_by("expires_at")[:_AT_ONCE]:
        with transaction.atomic():
            if settle(approval.id, ApprovalStatus.EXPIRED, decided_by="system", note="timeout"):
                audit.emit(_carry_out(approval, "Nobody approved this call in time, so it was denied: timeout."))
                bell.ring_if_done(approval.execution)


def withdraw_approval(row: ToolExecution) -> list[Fact]:
    """The execution was cancelled, so its request, if any, needs no decision. In the caller's transaction."""
    approval = Approval.objects.filter(execution=row, status=ApprovalStatus.PENDING).first()
    if approval is None or not settle(approval.id, ApprovalStatus.CANCELLED, decided_by="system"):
        return []
    approval.refresh_from_db()
    return [facts.approval_decided(row, approval)]


def digest_of(row: ToolExecution) -> str:
    """What an approval binds: the tool and its arguments, as canonical JSON."""
    shown = json.dumps([row.tool, row.arguments], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(shown.encode()).hexdigest()


def _carry_out(approval: Approval, denial: str) -> list[Fact]:
    """Let the execution run, or end it with the denial for the model to read."""
    approval.refresh_from_db()
    row = ToolExecution.objects.get(pk=approval.execution_id)
    told = [facts.approval_decided(row, approval)]
    if approval.status == ApprovalStatus.APPROVED and approval.digest == digest_of(row):
        pending = ToolExecution.objects.filter(pk=row.pk, status=ExecutionStatus.PENDING)
        pending.update(ring_at=ring_at(conf.RING_AGAIN_SECONDS))
        bell.ring(row)
        return told
    if approval.status == ApprovalStatus.APPROVED:
        denial = "The call changed after it was approved, so it was not made."
    if move(row.id, ExecutionStatus.FAILED, error=denial):
        row.refresh_from_db()
        told.append(facts.ended(row))
    return told


def _too_late(approval_id: UUID) -> Conflict:
    first = selectors.get_approval(approval_id)
    if first.status in (ApprovalStatus.PENDING, ApprovalStatus.EXPIRED):
        return ApprovalExpired(decision=ApprovalStatus.EXPIRED.value)
    return AlreadyDecided(
        f"This request was {first.status} already, by {first.decided_by}.",
        decision=first.status.value, decidedBy=first.decided_by,
    )  # fmt: skip
