"""Runs as tasks of the protocol: the id of a task is that of its run, so a task outlives connections and restarts."""

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from django.utils import timezone
from pydantic import ValidationError

from agents_app.types import RunStatus
from sessions_app import services
from sessions_app.access import access_run, access_session
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.mcp.offers.run_asks import apply, forms
from sessions_app.surfaces.mcp.offers.runs import outcome_of
from sessions_app.surfaces.mcp.registry import TaskKind, TaskState, tasks


def _get(principal: Principal, task_id: str) -> TaskState:
    run = access_run(principal.user, task_id)
    session = access_session(principal.user, run.conversation_id)
    if run.status is RunStatus.CANCELLED:
        return TaskState("cancelled", run.created_at, run.ended_at or run.created_at)
    outcome = outcome_of(principal, run.id, session.key)
    if outcome["status"] != run.status.value:  # it has ended meanwhile
        return _get(principal, task_id)
    if run.status.is_terminal:
        return TaskState("completed", run.created_at, run.ended_at or run.created_at, outcome)
    asks = forms(outcome.get("asks", []), session.pk) if principal.can_write else {}
    return TaskState("input_required" if asks else "working", run.created_at, timezone.now(), asks=asks)


def _answer(principal: Principal, task_id: str, answers: Mapping[str, Any]) -> None:
    principal.require_write()
    run = access_run(principal.user, task_id)
    open_asks = _get(principal, task_id).asks
    given = {name: _read(answer) for name, answer in answers.items() if name in open_asks}
    apply(principal, run.conversation_id, given)


def _read(answer: Any) -> types.ElicitResult:
    """Return an answer; one of another form counts as a form that was closed."""
    try:
        return types.ElicitResult.model_validate(answer)
    except ValidationError:
        return types.ElicitResult(action="cancel")


def _cancel(principal: Principal, task_id: str) -> None:
    principal.require_write()
    run = access_run(principal.user, task_id)
    session = access_session(principal.user, run.conversation_id)
    services.cancel_session_runs(session, reason="Stopped by its user.", run_id=run.id)


tasks.register(TaskKind("", _get, _answer, _cancel))
