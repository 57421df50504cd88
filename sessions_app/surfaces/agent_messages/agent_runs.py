"""Agent runs: a session, the metadata of this surface, and the state of the session's last run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from agents_app.models import IS_ROOT, Run
from agents_app.types import RunStatus, WaitingOn
from audit_app.kernel.errors import NotFound
from sessions_app.access import access_session
from sessions_app.conversation.sessions import lock
from sessions_app.models import Session
from sessions_app.surfaces.base.timestamps import iso

NAME = "agents"  # key of this surface in Session.metadata
WORKFLOW = "agent-"  # prefix of a workflow's id, before the id of its run
ACCOUNT, PROJECT = "komand", "default"
TERMINAL = ("completed", "failed", "cancelled")
STATUSES = ("created", "running", *TERMINAL)
_OPEN = (RunStatus.QUEUED.value, RunStatus.RUNNING.value, RunStatus.WAITING.value)
_FAILED = (RunStatus.FAILED.value, RunStatus.TIMED_OUT.value)
_WAITING_ON_USER = (WaitingOn.APPROVAL.value, WaitingOn.INPUT.value)


@dataclass(frozen=True)
class AgentRun:
    """An agent run of the protocol. The fields after `session` describe its last turn, if it has one."""

    session: Session
    last_status: str | None = None
    waiting_on: str = ""
    ended_at: datetime | None = None
    error_message: str = ""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of this surface. Empty for a session opened elsewhere: an interactive run of its agent."""
        return self.session.metadata.get(NAME) or {}

    @property
    def request(self) -> Mapping[str, Any]:
        """The fields of the start request that the run repeats."""
        return self.metadata.get("request") or {}

    @property
    def id(self) -> str:
        return str(self.session.id)

    @property
    def workflow_id(self) -> str:
        return f"{WORKFLOW}{self.id}"

    @property
    def interaction(self) -> str:
        return str(self.metadata.get("interaction") or self.session.agent.agent_id)

    @property
    def is_interactive(self) -> bool:
        return bool(self.metadata.get("interactive", True))

    @property
    def status(self) -> str:
        """One of STATUSES. A run whose turn was cancelled is still "running": it accepts messages."""
        if stored := self.metadata.get("status"):
            return str(stored)
        if self.is_interactive or self.last_status in (*_OPEN, RunStatus.CANCELLED.value):
            return "running"
        if self.last_status is None:
            return "created"
        return "failed" if self.last_status in _FAILED else "completed"

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def activity(self) -> str:
        is_working = not self.is_terminal and self.last_status in _OPEN and self.waiting_on not in _WAITING_ON_USER
        return "working" if is_working else "idle"

    @property
    def completed_at(self) -> str | None:
        if not self.is_terminal:
            return None
        return str(self.metadata.get("ended_at") or "") or iso(self.ended_at or self.session.last_active_at)


def agent_runs() -> QuerySet[Session]:
    """Return all sessions, annotated with the state of their last run."""
    last = Run.objects.filter(IS_ROOT, conversation_id=OuterRef("pk")).order_by("-ordinal")
    return Session.objects.select_related("agent").annotate(
        run_status=Subquery(last.values("status")[:1]),
        run_waiting_on=Subquery(last.values("waiting_on")[:1]),
        run_ended_at=Subquery(last.values("ended_at")[:1]),
        run_error=Subquery(last.values("error_message")[:1]),
    )


def from_row(row: Any) -> AgentRun:
    """Return the run of a row of `agent_runs`."""
    return AgentRun(row, row.run_status, row.run_waiting_on or "", row.run_ended_at, row.run_error or "")


def access_run(user: User, run_id: str, workflow_id: str = "") -> AgentRun:
    """Return a run of the user by its id or its workflow's, or by both. Raises NotFound."""
    try:
        session = access_session(user, run_id.removeprefix(WORKFLOW))
    except NotFound:
        raise NotFound("There is no such agent run.") from None
    if workflow_id and workflow_id not in (f"{WORKFLOW}{session.id}", str(session.id)):
        raise NotFound("There is no such agent run.")
    return load(session)


def load(session: Session) -> AgentRun:
    """Return the session's run with its present state."""
    return from_row(agent_runs().get(pk=session.pk))


def status_filter(status: str) -> Q:
    """Return a filter of `agent_runs` for the rows whose `AgentRun.status` is this one."""
    key = f"metadata__{NAME}__"
    interactive = Q(**{f"{key}interactive": True})
    derived = {
        "created": Q(run_status=None) & ~interactive,
        "running": Q(run_status__in=[*_OPEN, RunStatus.CANCELLED.value]) | interactive,
        "failed": Q(run_status__in=_FAILED) & ~interactive,
        "completed": Q(run_status=RunStatus.COMPLETED.value) & ~interactive,
    }.get(status, Q(pk__in=[]))
    return Q(**{f"{key}status": status}) | (Q(**{f"{key}status": ""}) & derived)


def update_metadata(session: Session, **changes: Any) -> None:
    """Change the metadata of this surface, in the caller's transaction or one of its own."""
    with transaction.atomic():
        row = lock(session.id)
        default = {"interaction": row.agent.agent_id, "interactive": True, "status": ""}
        row.metadata[NAME] = {**default, **row.metadata.get(NAME, {}), **changes}
        Session.objects.filter(pk=row.pk).update(metadata=row.metadata)
        session.metadata = row.metadata


def store_end(session: Session, status: str) -> None:
    update_metadata(session, status=status, ended_at=iso(timezone.now()))
