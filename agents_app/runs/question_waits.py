"""Runs that wait for a person because a call asks while it runs."""

from uuid import UUID

from agents_app.models import Run
from agents_app.runs import hooks, run_events
from agents_app.types import RunStatus, WaitingOn
from agents_app.types.child_runs import Phase, title_of
from audit_app.kernel.after_commit import after_commit
from tools_app.executions.call_questions import RunWait


def begin(run_id: UUID) -> RunWait | None:
    """Let a run that waits for its calls wait for a person, in the caller's transaction; its row stays locked.

    Return None, without changes, if nobody can be asked: the run is unattended, or is about to be cancelled.
    """
    rows = Run.objects.select_for_update(of=("self",), no_key=True).select_related("agent")
    run = rows.filter(pk=run_id, status=RunStatus.WAITING.value, cancel_requested_at=None).first()
    if run is None or _is_unattended(run):
        return None
    is_new = run.waiting_on == WaitingOn.TOOLS.value
    if is_new:
        Run.objects.filter(pk=run_id).update(waiting_on=WaitingOn.INPUT.value)
    for notify in hooks.on_ask:
        after_commit(notify)
    asker = title_of(run.child_spec.path) if run.parent_id else ""
    return RunWait(asker, run_events.phase_changed(run, Phase.BLOCKED) if is_new else ())


def _is_unattended(run: Run) -> bool:
    root = run if run.root_id in (None, run.pk) else Run.objects.only("options").get(pk=run.root_id)
    return bool(root.options.get("is_unattended"))
