"""Grants: patterns of calls allowed in advance, for one run or for an agent until revoked."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import NotFound
from tools_app import hot_queries
from tools_app.models import Grant, ToolExecution


@dataclass(frozen=True)
class GrantView:
    """A permanent grant of an agent. granted_by: the actor whose decision made it."""

    id: UUID
    agent_id: str
    pattern: str
    granted_by: str
    created_at: datetime


def make_grant(pattern: str, row: ToolExecution, *, for_run: bool = False, approval_id: UUID, actor: str) -> None:
    """Allow the pattern to the agent of an execution, in the caller's transaction. Idempotent.

    for_run: only for the run of the execution; else permanently.
    """
    agent_id, run_id = row.agent_id, row.run_id if for_run else None
    scope = _of_run(run_id) if run_id else _standing(agent_id)
    if scope.filter(pattern=pattern).exists():
        return
    grant = {"agent_id": agent_id, "run_id": run_id, "pattern": pattern, "approval_id": approval_id}
    Grant.objects.create(**grant, granted_by=actor, created_at=timezone.now())
    details = {"pattern": pattern, "approval_id": str(approval_id), "run_id": str(run_id) if run_id else None}
    session_id, session_key = row.session_id, row.session_key
    audit.record(
        "GrantMade", actor=actor, agent_id=agent_id, session_id=session_id, session_key=session_key, details=details
    )


def revoke_grant(grant_id: UUID, *, agent_id: str = "") -> None:
    """Revoke a grant. Owns its transaction.

    agent_id: restricts the look-up to grants of this agent.
    Raises NotFound if there is no such grant, or it was revoked before.
    """
    with transaction.atomic():
        rows = Grant.objects.filter(pk=grant_id, revoked_at=None)
        row = (rows.filter(agent_id=agent_id) if agent_id else rows).first()
        actor = context.actor.get()
        if row is None or not rows.update(revoked_at=timezone.now(), revoked_by=actor):
            raise NotFound("There is no such grant.")
        audit.record("GrantRevoked", agent_id=row.agent_id, details={"pattern": row.pattern, "grant_id": str(row.pk)})


def list_grants(agent_id: str) -> tuple[GrantView, ...]:
    """Return the permanent grants of an agent, oldest first."""
    return tuple(
        GrantView(row.id, row.agent_id, row.pattern, row.granted_by, row.created_at)
        for row in _standing(agent_id).order_by("id")
    )


def standing_patterns(agent_id: str) -> tuple[str, ...]:
    return tuple(pattern for (pattern,) in hot_queries.LIST_STANDING_PATTERNS.rows(agent_id=agent_id))


def run_patterns(run_id: UUID) -> tuple[str, ...]:
    return tuple(pattern for (pattern,) in hot_queries.LIST_RUN_PATTERNS.rows(run_id=run_id))


def _standing(agent_id: str) -> QuerySet[Grant]:
    return Grant.objects.filter(agent_id=agent_id, run_id=None, revoked_at=None).order_by()


def _of_run(run_id: UUID) -> QuerySet[Grant]:
    return Grant.objects.filter(run_id=run_id, revoked_at=None).order_by()
