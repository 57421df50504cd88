"""Approval requests, stored beside the execution that waits, and their decisions.

Decisions by approvers, by expiry and by cancelled runs all use the same guarded update: the first one counts.
"""

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.errors import Conflict, Forbidden, InvalidInput, found
from audit_app.kernel.shorten import one_line
from tools_app import catalogue, conf, hot_queries, selectors
from tools_app.executions import batches, events, nudges
from tools_app.executions.transitions import allow_first, move, renudge_at, settle
from tools_app.models import Approval, ToolExecution
from tools_app.policy import budgets, credential_access, emergency_stop, grants, readings
from tools_app.policy.decide import OPEN_SESSION, Ask, Deny, Situation, decide
from tools_app.policy.patterns import PolicyCall, parse
from tools_app.policy.rules import AgentPolicy, SessionPolicy
from tools_app.policy.suggestions import Proposal
from tools_app.types import AnyTool, ApprovalStatus, ApprovalView, Decision, Effect, ExecutionStatus, Risk
from tools_app.types.credential_use import NO_CREDENTIALS, CredentialUse


class AlreadyDecided(Conflict):
    """This request has already been decided."""

    code = "already_decided"


class SecondPersonNeeded(Forbidden):
    """Another person has to allow this call."""

    code = "second_person_needed"


class ApprovalExpired(Conflict):
    """This request has expired. The call was denied."""

    code = "approval_expired"


@dataclass(frozen=True)
class ApprovalPrompt:
    """Content of an approval request.

    is_standing: whether a permanent grant is possible.
    run_pattern, pattern: calls that would be allowed for the run, and permanently.
    origins: what the run has read from outside.
    use: the credentials of the call.
    needs_two: two people must allow it.
    """

    reason: str
    is_standing: bool
    run_pattern: str
    pattern: str
    origins: tuple[str, ...] = ()
    use: CredentialUse = NO_CREDENTIALS
    needs_two: bool = False

    @classmethod
    def of(cls, verdict: Ask, proposal: Proposal, use: CredentialUse) -> "ApprovalPrompt":
        used = credential_access.describe(use)
        reason = f"It uses the {used}. {verdict.reason}" if used else verdict.reason
        always = proposal.always if verdict.is_standing else ""
        return cls(reason, verdict.is_standing, proposal.run, always, verdict.origins, use, verdict.needs_two)


def request_approval(row: ToolExecution, prompt: ApprovalPrompt, asker: str = "") -> Approval:
    """Store the request for an execution planned in this transaction. It binds the arguments shown.

    asker: name of the workstream that asks, for people. Expires by the database's clock.
    """
    approval = Approval(
        execution=row,
        run_id=row.run_id,
        digest=digest_of(row),
        reason=f"{_asked_by(asker)}{prompt.reason}"[:200],
        is_standing=prompt.is_standing,
        run_pattern=prompt.run_pattern,
        pattern=prompt.pattern,
        origins="\n".join(prompt.origins),
        credentials=list(prompt.use.names),
        credential_owner=prompt.use.owner if prompt.use.names else "",
        needs_two=prompt.needs_two,
        created_at=timezone.now(),
        expires_at=Now() + timedelta(minutes=settings.KOMAND_APPROVAL_MINUTES),
    )
    approval.save(force_insert=True)
    approval.refresh_from_db(fields=["expires_at"])
    return approval


def _asked_by(asker: str) -> str:
    return f"Asked by the workstream {one_line(asker, conf.LONGEST_ASKER)}. " if asker else ""


@dataclass(frozen=True)
class CurrentPolicy:
    """The rules as of now, for calls that have waited."""

    policy: AgentPolicy
    session_policy: SessionPolicy = OPEN_SESSION

    def refusal(self, row: ToolExecution) -> str:
        tool = catalogue.find_tool(row.tool, row.agent_id)
        if tool is None:
            return f"The tool {row.tool} is no longer available."
        labels = tool.credentials_of(row.arguments, row.actor).labels
        call = PolicyCall(tool.spec, row.arguments, follow=os.path.realpath, credentials=labels)
        situation = Situation(stopped=emergency_stop.why_stopped(row.agent_id))
        verdict = decide(call, Risk(row.risk), self.policy, row.actor, self.session_policy, situation)
        return verdict.reason if isinstance(verdict, Deny) else ""

    def covers(self, pattern: str, row: ToolExecution, *, for_run: bool) -> bool:
        tool = catalogue.find_tool(row.tool, row.agent_id)
        if tool is None or (for_run and not _may_repeat(tool, row)):
            return False
        labels = tool.credentials_of(row.arguments, row.actor).labels
        return parse(pattern).permits(
            PolicyCall(tool.spec, row.arguments, self.policy.workspace, os.path.realpath, labels)
        )


def _may_repeat(tool: AnyTool, row: ToolExecution) -> bool:
    """Return whether a permission for the run may cover a call that waits."""
    if tool.effect_of(row.arguments) is Effect.READ or not readings.list_origins(row.session_id):
        return True
    return readings.is_known(row.tool, row.arguments, session_id=row.session_id, run_id=row.run_id)


def decide_approval(
    approval_id: UUID,
    *,
    decision: str,
    actor: str,
    policy: CurrentPolicy,
    note: str = "",
    requesters: Collection[str] = (),
) -> ApprovalView:
    """Apply an approver's decision: the call is run, or fails with the denial for the model.

    decision: one of the approval's `choices`.
    actor: the approver. The caller checks that they may decide.
    policy: a call that it denies by now is not made.
    note: one sentence for the model and the record.
    requesters: actors who asked for the call. Of two people who must allow it, neither may be one of these. After the
        first of them the request is still pending.
    ALLOW_RUN and ALLOW_ALWAYS also settle the run's other requests that the grant covers.
    Joins the caller's transaction, or uses one of its own. Raises NotFound, InvalidInput (unknown_decision,
    choice_not_offered), AlreadyDecided (with the first decision in `extra`), ApprovalExpired, SecondPersonNeeded.
    """
    with transaction.atomic():
        row = Approval.objects.select_related("execution").filter(id=approval_id).first()
        approval = found(row, "There is no such approval.")
        chosen = _chosen(approval, decision)
        to = ApprovalStatus.DENIED if chosen is Decision.DENY else ApprovalStatus.APPROVED
        open_batches = batches.lock_all(approval.run_id)
        _lock_call(approval)
        if approval.needs_two and to is ApprovalStatus.APPROVED:
            _check_person(approval, actor, {approval.execution.actor, *requesters})
            if allow_first(approval.id, actor=actor):
                _record_first(approval, actor, note)
                return selectors.get_approval(approval_id)
        if not settle(approval.id, to, decided_by=actor, note=note, decision=chosen):
            raise _too_late(approval_id)
        new_events = _carry_out(approval, f"The user denied this call{f': {note}' if note else '.'}", policy)
        if chosen in (Decision.ALLOW_RUN, Decision.ALLOW_ALWAYS):
            new_events += _allow_further(approval, chosen, actor, policy)
        audit.emit(new_events)
        batches.advance(open_batches)
        nudges.nudge_if_done(approval.execution)
        return selectors.get_approval(approval_id)


def expire_approvals() -> set[UUID]:
    """Deny the requests that have expired; part of the sweep. Returns their runs."""
    runs: set[UUID] = set()
    for approval in hot_queries.LIST_EXPIRED_APPROVALS.fetch():
        with transaction.atomic():
            batches.lock(approval.execution)
            _lock_call(approval)
            if settle(approval.id, ApprovalStatus.EXPIRED, decided_by="system", note="timeout"):
                audit.emit(_carry_out(approval, "No one approved this call in time, so it was denied: timeout."))
                batches.item_ended(approval.execution)
                runs.add(approval.run_id)
    return runs


def withdraw_approval(row: ToolExecution) -> list[NewEvent]:
    """Cancel the pending request, if any, of a cancelled execution, in the caller's transaction. Returns the events."""
    approval = Approval.objects.filter(execution=row, status=ApprovalStatus.PENDING).first()
    if approval is None or not settle(approval.id, ApprovalStatus.CANCELLED, decided_by="system"):
        return []
    budgets.give_back(row)
    approval.refresh_from_db()
    return [events.approval_decided(row, approval)]


def digest_of(row: ToolExecution) -> str:
    """Return the digest of tool and arguments that an approval binds."""
    bound = json.dumps([row.tool, row.arguments], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(bound.encode()).hexdigest()


def _let_run(row: ToolExecution) -> None:
    pending = ToolExecution.objects.filter(pk=row.pk, status=ExecutionStatus.PENDING)
    if row.batch_id:  # its batch decides when it runs
        pending.update(charged_at=timezone.now())
        return
    pending.update(renudge_at=renudge_at(conf.RENUDGE_SECONDS), charged_at=timezone.now())
    nudges.nudge_worker(row)


def _carry_out(approval: Approval, denial: str, gate: CurrentPolicy | None = None) -> list[NewEvent]:
    """Let the execution run, or fail it with the denial for the model."""
    approval.refresh_from_db()
    row = ToolExecution.objects.get(pk=approval.execution_id)
    new_events = [events.approval_decided(row, approval)]
    if approval.status == ApprovalStatus.APPROVED:
        if approval.digest != digest_of(row):
            denial = "The call changed after it was approved, so it was not made."
        else:
            denial = gate.refusal(row) if gate else ""
    if not denial:
        _let_run(row)
    elif move(row.id, ExecutionStatus.FAILED, error=denial):
        budgets.give_back(row)
        row.refresh_from_db()
        new_events.append(events.ended(row))
    return new_events


def _allow_further(approval: Approval, chosen: Decision, actor: str, gate: CurrentPolicy) -> list[NewEvent]:
    """Store the grant, and settle the run's other requests that it covers."""
    row = approval.execution
    for_run = chosen is Decision.ALLOW_RUN
    pattern = approval.run_pattern if for_run else approval.pattern
    grants.make_grant(pattern, row, for_run=for_run, approval_id=approval.id, actor=actor)
    waiting = Approval.objects.select_related("execution").filter(run_id=row.run_id, status=ApprovalStatus.PENDING)
    new_events: list[NewEvent] = []
    for other in waiting.order_by("id"):
        if other.needs_two or chosen not in other.choices or not gate.covers(pattern, other.execution, for_run=for_run):
            continue
        _lock_call(other)
        note = f"Covered by {pattern}."
        if settle(other.id, ApprovalStatus.APPROVED, decided_by=actor, note=note, decision=chosen):
            new_events += _carry_out(other, "", gate)
    return new_events


def _check_person(approval: Approval, actor: str, requesters: Collection[str]) -> None:
    """Raise SecondPersonNeeded if the actor may not be one, or the other, of the two people who allow a request."""
    if actor in requesters:
        raise SecondPersonNeeded("You asked for this call, so two other people have to allow it. You can deny it.")
    if Approval.objects.filter(pk=approval.pk, status=ApprovalStatus.PENDING, first_allowed_by=actor).exists():
        raise SecondPersonNeeded("You have allowed this call already (1 of 2). Another person has to allow it, too.")


def _record_first(approval: Approval, actor: str, note: str) -> None:
    """Audit the first of two people. The event of the decision names the second."""
    row = approval.execution
    details = {"approval_id": str(approval.pk), "execution_id": str(row.pk), "tool": row.tool, "note": note}
    place: Any = {"agent_id": row.agent_id, "session_id": row.session_id, "session_key": row.session_key}
    audit.record("ApprovalFirstAllowed", actor=actor, details=details, **place)


def _lock_call(approval: Approval) -> None:
    """Lock the execution's row before the request's, in the same order as a cancellation."""
    ToolExecution.objects.select_for_update(no_key=True).get(pk=approval.execution_id)


def _chosen(approval: Approval, text: str) -> Decision:
    """Return the decision. Raises InvalidInput if it is unknown, or not offered for a pending request."""
    try:
        chosen = Decision(text)
    except ValueError:
        raise InvalidInput(f"A decision is one of {', '.join(Decision)}.", code="unknown_decision") from None
    if approval.status == ApprovalStatus.PENDING and chosen not in approval.choices:
        raise InvalidInput(
            f"This call always requires approval ({approval.reason}), so it cannot be allowed permanently. "
            f"Choose one of {', '.join(approval.choices)}.",
            code="choice_not_offered",
        )
    return chosen


def _too_late(approval_id: UUID) -> Conflict:
    first = selectors.get_approval(approval_id)
    if first.status in (ApprovalStatus.PENDING, ApprovalStatus.EXPIRED):
        return ApprovalExpired(decision=ApprovalStatus.EXPIRED.value)
    return AlreadyDecided(
        f"This request has already been {first.status} by {first.decided_by}.",
        decision=first.decision or first.status.value,
        status=first.status.value,
        decidedBy=first.decided_by,
    )
