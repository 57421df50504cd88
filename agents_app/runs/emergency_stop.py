"""The emergency stop of runs: active runs end, their tool calls are killed, queued runs wait until it is lifted.

Trees end whose root is of a stopped agent, also if the root has answered, and whatever agents the runs below are of.
"""

import logging

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from agents_app import hot_queries
from agents_app.models import IS_ACTIVE, IS_OPEN, Agent, Run
from agents_app.runs import children
from agents_app.runs.isolation import isolated
from agents_app.runs.next_step import stopped
from agents_app.runs.transitions import ADVANCE, QUEUE, end, request_cancel
from audit_app.kernel.errors import NotFound
from audit_app.kernel.nudges import nudge
from tools_app.policy import emergency_stop
from tools_app.policy.emergency_stop import ControlView

logger = logging.getLogger(__name__)

_AT_ONCE = 100


def stop_agents(scope: str = emergency_stop.ALL, *, reason: str = "") -> ControlView:
    """Stop all agents, or the one with this public id. Idempotent; owns its transactions.

    Waiting runs end at once, with their tool calls; the owners of running runs end them within a second; queued runs
    wait, and no new run is accepted. Raises NotFound for an unknown agent.
    """
    _check_scope(scope)
    with transaction.atomic():
        status = emergency_stop.stop(scope, reason=reason)
    while end_stopped() == _AT_ONCE:
        pass
    return status


def resume_agents(scope: str = emergency_stop.ALL, *, reason: str = "") -> ControlView:
    """Lift the emergency stop and nudge for the runs that waited. Owns its transaction. Raises NotFound."""
    _check_scope(scope)
    with transaction.atomic():
        status = emergency_stop.resume(scope, reason=reason)
        waiting = hot_queries.claimable().order_by("ready_at").values_list("id", flat=True)
        for run_id in waiting[:_AT_ONCE]:  # the sweeper nudges for the others
            nudge(ADVANCE, str(run_id), queue=QUEUE)
    return status


def end_stopped() -> int:
    """End at most _AT_ONCE active runs that are stopped and have no owner. Return their number. Idempotent.

    The reaper calls it each second while anything is stopped, for runs that were parked after the stop.
    """
    if not emergency_stop.is_any_stopped():
        return 0
    has_stop = Exists(emergency_stop.stops_of(OuterRef("agent__agent_id")))
    root_has_stop = Exists(emergency_stop.stops_of(OuterRef("root__agent__agent_id")))
    is_below_stop = Q(IS_OPEN, root_has_stop, parent__isnull=False)
    _cancel_owned(is_below_stop)
    rows = Run.objects.select_related("agent", "root__agent").filter(Q(IS_ACTIVE, has_stop) | is_below_stop, owner=None)
    count = 0
    for run in rows.order_by()[:_AT_ONCE]:
        agents = [run.agent, *([run.root.agent] if run.root else [])]
        whys = (emergency_stop.why_stopped(agent.agent_id) for agent in agents)
        why = next(filter(None, whys), "Stopped by an operator.")
        with isolated(f"ending the stopped run {run.pk}"), transaction.atomic():
            count += end(run, stopped(why), held_by=None)
    if count:
        logger.warning("the emergency stop ended %d runs", count)
    return count


def _cancel_owned(runs: Q) -> None:
    """Have the owners of these child runs cancel them, which look for a stop of the run's own agent alone."""
    asked = Run.objects.filter(runs, owner__isnull=False, cancel_requested_at=None).order_by()
    for run_id in asked.values_list("pk", flat=True)[:_AT_ONCE]:
        with isolated(f"stopping run {run_id}"), transaction.atomic():
            run = children.lock_in_tree(run_id)
            if not run.ended_at:
                request_cancel(run)


def _check_scope(scope: str) -> None:
    if scope and not Agent.objects.filter(agent_id=scope).exists():
        raise NotFound(f"There is no agent {scope!r}.", code="unknown_agent")
