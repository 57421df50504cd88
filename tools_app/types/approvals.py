"""Approval requests as other apps see them. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class ApprovalStatus(StrEnum):
    """Status of an approval request. CANCELLED: the call was cancelled before the decision."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Decision(StrEnum):
    """Decision of an approver.

    ALLOW_RUN: for the rest of the run.
    ALLOW_ALWAYS: for the agent, until revoked.
    """

    ALLOW_ONCE = "allow_once"
    ALLOW_RUN = "allow_run"
    ALLOW_ALWAYS = "allow_always"
    DENY = "deny"


# What people read once a request is decided or has ended.
OUTCOMES = {
    Decision.ALLOW_ONCE: "Allowed once",
    Decision.ALLOW_RUN: "Allowed for this run",
    Decision.ALLOW_ALWAYS: "Always allowed",
    Decision.DENY: "Denied",
}
_ENDED = {
    ApprovalStatus.PENDING: "Not decided yet",
    ApprovalStatus.APPROVED: "Allowed",
    ApprovalStatus.DENIED: "Denied",
    ApprovalStatus.EXPIRED: "Nobody decided in time: denied",
    ApprovalStatus.CANCELLED: "Cancelled with the answer",
}


def outcome_of(status: str, decision: str, people: str) -> str:
    """Return the outcome of a request in one line. people: names of those who decided."""
    text = OUTCOMES[Decision(decision)] if decision else _ENDED[ApprovalStatus(status)]
    is_decided = status in (ApprovalStatus.APPROVED, ApprovalStatus.DENIED)
    return f"{text} by {people}" if is_decided and people else text


@dataclass(frozen=True)
class ApprovalView:
    """An approval request as other apps see it.

    reason: why the policy requires approval.
    note: comment of the approver.
    decision: empty while pending.
    choices: decisions that may be made.
    run_pattern, pattern: calls that ALLOW_RUN and ALLOW_ALWAYS would allow.
    needs_two: two people must allow it.
    first_allowed_by: the actor who did so first.
    origins: what the run had read from outside before the call, see `policy.taint`.
    credentials, credential_owner: of the call, see `CredentialUse`.
    workstream: name of the workstream that asks; empty for the run of a message.
    targets, places: names of the arguments that say what the call reaches or sends, which are shown first, and the
        hosts in them; see `executions.preview`.
    """

    id: UUID
    execution_id: UUID
    run_id: UUID
    session_id: UUID
    agent_id: str
    tool: str
    arguments: dict[str, Any]
    risk: str
    reason: str
    status: ApprovalStatus
    decided_by: str
    note: str
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decision: str = ""
    choices: tuple[Decision, ...] = tuple(Decision)
    run_pattern: str = ""
    pattern: str = ""
    needs_two: bool = False
    first_allowed_by: str = ""
    origins: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    credential_owner: str = ""
    targets: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    workstream: str = ""
