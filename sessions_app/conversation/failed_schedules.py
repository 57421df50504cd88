"""The audit entry of a scheduled message whose run has failed."""

from collections.abc import Mapping
from typing import Any

from agents_app import selectors as agents
from agents_app.types import RunView
from audit_app import services as audit
from sessions_app.models import Schedule, Session

NAME = "schedule"  # of the note by which a run's options name the schedule


def note_of(schedule: Schedule, due_at: str) -> dict[str, Any]:
    """Return the note for the options of the schedule's run. due_at: the time of the message."""
    return {NAME: {"schedule": schedule.task_id, "due_at": due_at}}


def record_failure(session: Session, run: RunView) -> None:
    """Record CronFailed if a schedule has started this failed run. In the transaction that ends the run."""
    started_by: Mapping[str, Any] | None = (agents.get_options(run.id).note or {}).get(NAME)
    if started_by:
        details = {**started_by, "run_id": str(run.id), "code": run.error_code, "message": run.error_message}
        audit.record("CronFailed", details=details, actor=run.actor, agent_id=run.agent_id, session_id=session.pk)
