"""What agents' model calls cost in the last hour, against their budgets. Kept for agents that have such a budget."""

from datetime import UTC, datetime, timedelta

from django.db.models import F, Min, Sum

from agents_app.models import Agent, ModelProvider, Spending
from agents_app.types import ModelResponse, Usage

_WINDOW = timedelta(hours=1)


def charge(agent: Agent, provider: ModelProvider, response: ModelResponse) -> None:
    """Count one model call, in the caller's transaction. A server that counts no tokens is not free of cost: what it
    wrote is taken at four characters a token."""
    if _limit(agent) is None:
        return
    usage = response.usage
    if not (usage.input_tokens or usage.output_tokens):
        usage = Usage(output_tokens=len(response.text) // 4)
    cost = cost_of(provider, usage)
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    Spending.objects.bulk_create([Spending(agent=agent, minute=minute, cost=0.0)], ignore_conflicts=True)
    Spending.objects.filter(agent=agent, minute=minute).update(cost=F("cost") + cost)


def cost_of(provider: ModelProvider, usage: Usage) -> float:
    """In the unit of the provider's prices, which are per 1,000 tokens."""
    return (usage.input_tokens * provider.input_price + usage.output_tokens * provider.output_price) / 1000


def budget_refusal(agent: Agent) -> str:
    """Why the agent's model is not asked now and when it will be, in words for the person; empty when it is."""
    limit = _limit(agent)
    if limit is None:
        return ""
    recent = Spending.objects.filter(agent=agent, minute__gt=datetime.now(UTC) - _WINDOW)
    found = recent.aggregate(cost=Sum("cost"), first=Min("minute"))
    if limit > 0 and (found["cost"] or 0.0) < limit:
        return ""
    until = f" It goes on after {found['first'] + _WINDOW:%H:%M} UTC." if found["first"] and limit > 0 else ""
    return f"The agent has used up its budget of {limit:g} an hour for its model.{until} An operator can raise it."


def _limit(agent: Agent) -> float | None:
    limit: float | None = agent.budgets.get("costPerHour")
    return limit
