"""Hourly cost budgets, whose costs are stored only for agents with such a budget, and the refusal by any limit.

A call counts for its run's agent and for the other agents whose runs are above that.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import F, Min, Sum

from agents_app.costs import cost_caps
from agents_app.costs.usage_ledger import CallCost, agents_above
from agents_app.models import Agent, Run, Spending
from agents_app.types.prices import NANOS

_WINDOW = timedelta(hours=1)


def charge(run: Run, call: CallCost) -> None:
    """Add the cost of a model call of a run, and send alerts of caps, in the caller's transaction."""
    agents = _payers(run)
    for agent in sorted(agents, key=lambda agent: agent.pk):  # all transactions lock in one order
        if _limit(agent) is not None:
            _add(agent, call)
    if _may_be_capped(agents, run.actor):
        cost_caps.send_alerts(agents, run.actor)


def _payers(run: Run) -> list[Agent]:
    """Return the run's agent, then the others whose runs are above it. No query unless there are any."""
    above = agents_above(run)
    return [run.agent, *(Agent.objects.filter(agent_id__in=above).order_by("agent_id") if above else ())]


def _add(agent: Agent, call: CallCost) -> None:
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    Spending.objects.bulk_create([Spending(agent=agent, minute=minute, cost=0.0)], ignore_conflicts=True)
    added = call.counted_nanos / NANOS
    Spending.objects.filter(agent=agent, minute=minute).update(cost=F("cost") + added)


def refusal_of(run: Run) -> str:
    """Return `budget_refusal` for a run. Its token budgets are checked when the call is reserved."""
    text = _refusal(_payers(run), run.actor)
    return f"{text} Your message is saved." if text and run.parent_id is None else text


def budget_refusal(agent: Agent, actor: str = "") -> str:
    """Return the reason, for users, why a budget or a cap forbids a model call now; empty if none does. Reads only.

    actor: actor of the run, who may have caps of their own.
    """
    return _refusal([agent], actor)


def _refusal(agents: Sequence[Agent], actor: str) -> str:
    hourly = next(filter(None, map(_hourly_refusal, agents)), "")
    return hourly or (cost_caps.refusal(agents, actor) if _may_be_capped(agents, actor) else "")


def _may_be_capped(agents: Sequence[Agent], actor: str) -> bool:
    """Return whether a call may have caps. Those of a user are in a row of their own."""
    everyones = settings.KOMAND_COST_PER_DAY or settings.KOMAND_COST_PER_MONTH
    return bool(everyones or any(agent.budgets for agent in agents) or actor.startswith("user:"))


def _hourly_refusal(agent: Agent) -> str:
    limit = _limit(agent)
    if limit is None:
        return ""
    recent = Spending.objects.filter(agent=agent, minute__gt=datetime.now(UTC) - _WINDOW)
    found = recent.aggregate(cost=Sum("cost"), first=Min("minute"))
    if limit > 0 and (found["cost"] or 0.0) < limit:
        return ""
    until = f"{found['first'] + _WINDOW:%H:%M} UTC" if found["first"] and limit > 0 else ""
    return cost_caps.used_up("hourly budget", f"the agent {agent.agent_id}", until)


def _limit(agent: Agent) -> float | None:
    limit: float | None = agent.budgets.get("costPerHour")
    return limit
