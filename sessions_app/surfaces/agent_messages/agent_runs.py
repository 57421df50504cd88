"""Agent runs as they stand: a session, what this surface keeps beside it, and how its last turn is doing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from agents_app.models import Run
from agents_app.types import RunStatus, WaitingOn
from audit_app.kernel.errors import NotFound
from sessions_app.access import access_session
from sessions_app.conversation.sessions import lock
from sessions_app.models import Session
from sessions_app.surfaces.base.timestamps import iso

NAME = "agents"  # of what this surface keeps beside sessions
WORKFLOW = "agent-"  # before the id of a run: its workflow's
ACCOUNT, PROJECT = "komand", "default"
TERMINAL = ("completed", "failed", "cancelled")
_OPEN = (RunStatus.QUEUED.value, RunStatus.RUNNING.value, RunStatus.WAITING.value)
_FAILED = (RunStatus.FAILED.value, RunStatus.TIMED_OUT.value)
_ON_PERSON = (WaitingOn.APPROVAL.value, WaitingOn.INPUT.value)


@dataclass(frozen=True)
class AgentRun:
    """One agent run of the protocol. last_status and what follows: of its last turn, if there was one."""

    session: Session
    last_status: str | None = None
    waiting_on: str = ""
    ended_at: datetime | None = None
    error_message: str = ""

    @property
    def kept(self) -> Mapping[str, Any]:
        """What this surface keeps. A session that was opened elsewhere is an interactive run of its agent."""
        kept: Mapping[str, Any] = self.session.metadata.get(NAME) or {}
        return kept

    @property
    def id(self) -> str:
        return str(self.session.id)

    @property
    def interaction(self) -> str:
        return str(self.kept.get("interaction") or self.session.agent.agent_id)

    @property
    def is_interactive(self) -> bool:
        return bool(self.kept.get("interactive", True))

    @property
    def status(self) -> str:
        """created | running | completed | failed | cancelled. One that was stopped, not ended, can be used on."""
        if said := self.kept.get("status"):
            return str(said)
        if self.is_interactive or self.last_status in (*_OPEN, RunStatus.CANCELLED.value):
            return "running"
        if self.last_status is None:
            return "created"
        return "failed" if self.last_status in _FAILED else "completed"

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def is_working(self) -> bool:
        return not self.is_terminal and self.last_status in _OPEN and self.waiting_on not in _ON_PERSON

    @property
    def completed_at(self) -> str | None:
        if not self.is_terminal:
            return None
        return str(self.kept.get("ended_at") or "") or iso(self.ended_at or self.session.last_active_at)


def agent_runs() -> QuerySet[Session]:
    """Sessions with how their last turn is doing."""
    last = Run.objects.filter(conversation_id=OuterRef("pk")).order_by("-ordinal")
    return Session.objects.select_related("agent").annotate(
        run_status=Subquery(last.values("status")[:1]),
        run_waiting_on=Subquery(last.values("waiting_on")[:1]),
        run_ended_at=Subquery(last.values("ended_at")[:1]),
        run_error=Subquery(last.values("error_message")[:1]),
    )


def of_row(row: Any) -> AgentRun:
    """Of a row of `agent_runs`."""
    return AgentRun(row, row.run_status, row.run_waiting_on or "", row.run_ended_at, row.run_error or "")


def access_run(user: User, run_id: str, workflow_id: str = "") -> AgentRun:
    """A run of the user, by its id or its workflow's, or by both. Raises NotFound."""
    try:
        session = access_session(user, run_id.removeprefix(WORKFLOW))
    except NotFound:
        raise NotFound("There is no such agent run.") from None
    if workflow_id and workflow_id not in (f"{WORKFLOW}{session.id}", str(session.id)):
        raise NotFound("There is no such agent run.")
    return load(session)


def load(session: Session) -> AgentRun:
    """The run as it stands now."""
    return of_row(agent_runs().get(pk=session.pk))


def has_status(status: str) -> Q:
    """The rows of `agent_runs` that have this status, as `AgentRun.status` says it."""
    key = f"metadata__{NAME}__"
    unsaid = Q(**{f"{key}status": ""})
    interactive = Q(**{f"{key}interactive": True})
    if status == "created":
        derived = Q(run_status=None) & ~interactive
    elif status == "running":
        derived = Q(run_status__in=[*_OPEN, RunStatus.CANCELLED.value]) | interactive
    elif status == "failed":
        derived = Q(run_status__in=_FAILED) & ~interactive
    elif status == "completed":
        derived = Q(run_status=RunStatus.COMPLETED.value) & ~interactive
    else:
        derived = Q(pk__in=[])
    return Q(**{f"{key}status": status}) | (unsaid & derived)


def change(session: Session, **changes: Any) -> None:
    """Change what is kept beside a session, in the caller's transaction or one of its own."""
    with transaction.atomic():
        row = lock(session.id)
        kept = {"interaction": row.agent.agent_id, "interactive": True, "status": ""}
        row.metadata[NAME] = {**kept, **row.metadata.get(NAME, {}), **changes}
        Session.objects.filter(pk=row.pk).update(metadata=row.metadata)
        session.metadata = row.metadata


def end(session: Session, status: str) -> None:
    change(session, status=status, ended_at=iso(timezone.now()))
