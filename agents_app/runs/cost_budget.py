"""Hourly cost budgets: the cost of agents' model calls, stored only for agents with such a budget."""

from datetime import UTC, datetime, timedelta

from django.db.models import F, Min, Sum

from agents_app.models import Agent, ModelProvider, Spending
from agents_app.types import ModelResponse, Usage

_WINDOW = timedelta(hours=1)


def charge(agent: Agent, provider: ModelProvider, response: ModelResponse) -> None:
    """Add the cost of a model call, in the caller's transaction.

    If the server reports no tokens, the response is counted as one token per four characters.
    """
    if _limit(agent) is None:
        return
    usage = response.usage
    if not (usage.input_tokens or usage.output_tokens):
        usage = Usage(output_tokens=len(response.text) // 4)
    cost = provider.cost_of(usage)
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    Spending.objects.bulk_create([Spending(agent=agent, minute=minute, cost=0.0)], ignore_conflicts=True)
    Spending.objects.filter(agent=agent, minute=minute).update(cost=F("cost") + cost)


def budget_refusal(agent: Agent) -> str:
    """Return the reason, for users, why the budget forbids a model call now; empty if it does not."""
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
