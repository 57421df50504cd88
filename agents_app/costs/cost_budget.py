"""Hourly cost budgets, whose costs are stored only for agents with such a budget, and the refusal by any limit."""

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import F, Min, Sum

from agents_app.costs import cost_caps
from agents_app.costs.usage_ledger import CallCost
from agents_app.models import Agent, Run, Spending
from agents_app.types.prices import NANOS

_WINDOW = timedelta(hours=1)


def charge(agent: Agent, actor: str, call: CallCost) -> None:
    """Add the cost of a model call, and send alerts of caps, in the caller's transaction. actor: of the run."""
    if _limit(agent) is not None:
        _add(agent, call)
    if _may_be_capped(agent, actor):
        cost_caps.send_alerts(agent, actor)


def _add(agent: Agent, call: CallCost) -> None:
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    Spending.objects.bulk_create([Spending(agent=agent, minute=minute, cost=0.0)], ignore_conflicts=True)
    added = call.counted_nanos / NANOS
    Spending.objects.filter(agent=agent, minute=minute).update(cost=F("cost") + added)


def refusal_of(run: Run) -> str:
    """Return `budget_refusal` for a run. Its token budgets are checked when the call is reserved."""
    return budget_refusal(run.agent, run.actor)


def budget_refusal(agent: Agent, actor: str = "") -> str:
    """Return the reason, for users, why a budget or a cap forbids a model call now; empty if none does. Reads only.

    actor: actor of the run, who may have caps of their own.
    """
    return _hourly_refusal(agent) or (cost_caps.refusal(agent, actor) if _may_be_capped(agent, actor) else "")


def _may_be_capped(agent: Agent, actor: str) -> bool:
    """Return whether a call may have caps. Those of a user are in a row of their own."""
    everyones = settings.KOMAND_COST_PER_DAY or settings.KOMAND_COST_PER_MONTH
    return bool(everyones or agent.budgets or actor.startswith("user:"))


def _hourly_refusal(agent: Agent) -> str:
    limit = _limit(agent)
    if limit is None:
        return ""
    recent = Spending.objects.filter(agent=agent, minute__gt=datetime.now(UTC) - _WINDOW)
    found = recent.aggregate(cost=Sum("cost"), first=Min("minute"))
    if limit > 0 and (found["cost"] or 0.0) < limit:
        return ""
    until = f" Try again after {found['first'] + _WINDOW:%H:%M} UTC." if found["first"] and limit > 0 else ""
    return f"The agent has used up its model budget of {limit:g} per hour.{until} An operator can raise the budget."


def _limit(agent: Agent) -> float | None:
    limit: float | None = agent.budgets.get("costPerHour")
    return limit
