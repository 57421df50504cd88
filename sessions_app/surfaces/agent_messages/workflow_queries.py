"""Named queries of a run's state. Synchronous."""

from collections.abc import Callable
from typing import Any

from agents_app.runs.run_policy import policy_of_agent
from audit_app import timeline
from audit_app.kernel.errors import NotFound
from sessions_app.surfaces.agent_messages import child_runs, message_types
from sessions_app.surfaces.agent_messages.agent_runs import AgentRun
from tools_app import services as tools
from tools_app.events import PLAN_UPDATED


def answer(run: AgentRun, name: str) -> Any:
    """Return the result of a query. Raises NotFound (unknown_query)."""
    if name not in _QUERIES:
        raise NotFound(f"There is no query {name!r}. Available: {', '.join(_QUERIES)}.", code="unknown_query")
    return _QUERIES[name](run)


def _plan(run: AgentRun) -> dict[str, Any]:
    last = timeline.find_last(run.session.id, PLAN_UPDATED.name, until=timeline.find_head(run.session.id))
    return {"plan": message_types.plan(last.payload.get("tasks", []))["d"]["plan"] if last else []}


def _available_tools(run: AgentRun) -> dict[str, Any]:
    offered = tools.specs_for(policy_of_agent(run.session.agent))
    return {"tools": [{"name": spec.name, "description": spec.description} for spec in offered]}


_QUERIES: dict[str, Callable[[AgentRun], Any]] = {
    "ActiveWorkstreams": child_runs.active_workstreams,
    "AgentPlan": _plan,
    "AvailableTools": _available_tools,
}
