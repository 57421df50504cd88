"""Queries of a run's state, by name. Synchronous."""

from collections.abc import Callable
from typing import Any

from agents_app.runs.run_policy import policy_of_agent
from audit_app import timeline
from audit_app.kernel.errors import NotFound
from sessions_app.surfaces.agent_messages import event_messages, message_types
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from tools_app import services as tools


def answer(run: AgentRun, name: str) -> Any:
    """Raises NotFound for a query that there is not."""
    work = _QUERIES.get(name)
    if work is None:
        raise NotFound(f"There is no query {name!r}. Known: {', '.join(_QUERIES)}.", code="unknown_query")
    return work(run)


def _active_workstreams(run: AgentRun) -> dict[str, Any]:
    """None, as long as agents launch none."""
    return {"running": [], "completed": []}


def _plan(run: AgentRun) -> dict[str, Any]:
    head = timeline.find_head(run.session.id)
    last = timeline.find_last(run.session.id, event_messages.PLANNED, until=head)
    return {"plan": message_types.plan(last.payload.get("tasks", []))["d"]["plan"] if last else []}


def _available_tools(run: AgentRun) -> dict[str, Any]:
    offered = tools.specs_for(policy_of_agent(run.session.agent))
    return {"tools": [{"name": spec.name, "description": spec.description} for spec in offered]}


_QUERIES: dict[str, Callable[[AgentRun], Any]] = {
    "ActiveWorkstreams": _active_workstreams,
    "AgentPlan": _plan,
    "AvailableTools": _available_tools,
}
