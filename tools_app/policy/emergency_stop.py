"""The emergency stop of all agents, or of one: whether they may act. `agents_app` ends the active runs."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.db.models.expressions import Combinable
from django.utils import timezone

from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import InvalidInput, Unavailable
from tools_app import hot_queries
from tools_app.models import Control

ALL = ""
_LONGEST_REASON = 300


class Stopped(Unavailable):
    """An operator has stopped all agents. Try again when they are resumed."""

    code = "stopped"


@dataclass(frozen=True)
class ControlView:
    """State of one scope: of an agent's public id, or empty for all agents. changed_by: the last actor."""

    scope: str
    is_stopped: bool
    reason: str
    changed_by: str
    changed_at: datetime | None


def stop(scope: str = ALL, *, reason: str = "") -> ControlView:
    """Stop the scope, in the caller's transaction if any. Idempotent. Raises InvalidInput (reason_too_long)."""
    return _change(scope, is_stopped=True, reason=reason)


def resume(scope: str = ALL, *, reason: str = "") -> ControlView:
    """Resume the scope. Raises InvalidInput (reason_too_long)."""
    return _change(scope, is_stopped=False, reason=reason)


def get_status(scope: str = ALL) -> ControlView:
    row = Control.objects.filter(scope=scope).first()
    return _view(row) if row else ControlView(scope, is_stopped=False, reason="", changed_by="", changed_at=None)


def list_stopped() -> tuple[ControlView, ...]:
    """Return every stopped scope; all agents first."""
    return tuple(_view(row) for row in Control.objects.filter(is_stopped=True))


STOPS = (hot_queries.LIST_STOPPED_SCOPES,)


def is_any_stopped() -> bool:
    """Return whether any scope is stopped. Uses one small, compiled query."""
    return bool(hot_queries.LIST_STOPPED_SCOPES.rows())


def why_stopped(agent_id: str) -> str:
    """Return why this agent must not act, as a sentence for users; empty if it may. Uses one small, compiled query."""
    for scope, reason in hot_queries.LIST_STOPPED_SCOPES.rows():
        if scope in (ALL, agent_id):
            return explain(scope, reason)
    return ""


def check_running(agent_id: str) -> None:
    """Raise Stopped if the agent must not act."""
    why = why_stopped(agent_id)
    if why:
        raise Stopped(why)


def stops_of(agent_id: str | Combinable) -> QuerySet[Control]:
    """Return what stops this agent. Usable as a subquery: `Exists(stops_of(OuterRef("agent__agent_id")))`."""
    return Control.objects.filter(scope__in=[ALL, agent_id], is_stopped=True)


def explain(scope: str, reason: str) -> str:
    """Return a sentence for the sender of an unanswered message, and for the model."""
    what = f"The agent {scope} is" if scope else "All agents are"
    return f"{what} stopped by an operator{f': {reason}' if reason else ''}."


def _change(scope: str, *, is_stopped: bool, reason: str) -> ControlView:
    if len(reason) > _LONGEST_REASON:
        raise InvalidInput(f"A reason may have at most {_LONGEST_REASON} characters.", code="reason_too_long")
    actor = context.actor.get()
    row, _ = Control.objects.update_or_create(
        scope=scope,
        defaults={"is_stopped": is_stopped, "reason": reason, "changed_by": actor, "changed_at": timezone.now()},
    )
    action = "EmergencyStop" if is_stopped else "EmergencyResume"
    audit.record(action, agent_id=scope, details={"scope": scope or "all", "reason": reason})
    return _view(row)


def _view(row: Control) -> ControlView:
    return ControlView(row.scope, row.is_stopped, row.reason, row.changed_by, row.changed_at)
