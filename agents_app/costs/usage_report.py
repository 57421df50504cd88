"""Reports of usage: sums of the records of model calls, the use of caps, and alerts. Reads only."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import F, QuerySet, Sum

from agents_app.costs import cost_caps, usage_ledger
from agents_app.costs.cost_caps import Cap
from agents_app.models import Agent, CostAlert, CostTotal, DailyUsage, UserCostCap
from agents_app.types.prices import NANOS

LONGEST_DAYS = 366  # of one report
# Columns of the records by the name of a group.
GROUPS = {
    "day": ("day",),
    "agent": ("agent_id",),
    "user": ("actor",),
    "session": ("conversation_id",),
    "model": ("provider", "model"),
}
_SUMS = (
    "calls",
    "unpriced_calls",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_nanos",
)
_MOST_USERS = 50  # with caps of the settings: those with the highest cost
_MOST_ALERTS = 50


@dataclass(frozen=True)
class UsageFilter:
    """The records of a report.

    since, until: days in UTC, both included.
    actors, agents: the only ones; None: all.
    """

    since: date
    until: date
    actors: Collection[str] | None = None
    agents: Collection[str] | None = None
    session_id: UUID | None = None
    model: str = ""


@dataclass(frozen=True)
class UsageSum:
    """A sum of records. day, agent_id, actor, session_id, provider, model: None if the report does not group by them.

    unpriced_calls: calls of models without a price.
    cost: in units of the currency, of the others.
    """

    calls: int = 0
    unpriced_calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    day: date | None = None
    agent_id: str | None = None
    actor: str | None = None
    session_id: UUID | None = None
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class CapUse:
    """A cap with the cost of its period so far.

    percent: may exceed 100.
    resets: the first day of the next period.
    """

    cap: Cap
    spent: float
    percent: int
    resets: date


def total(wanted: UsageFilter) -> UsageSum:
    """Return the sum of all records."""
    return _sum_of(_records(wanted).aggregate(**_sums()))


def list_sums(wanted: UsageFilter, groups: Sequence[str], *, limit: int, offset: int = 0) -> list[UsageSum]:
    """Return the sums by these groups: the newest days first, and of a day the highest costs."""
    rows = _grouped(wanted, groups)[offset : offset + limit]
    return [_sum_of(row) for row in rows]


def count_sums(wanted: UsageFilter, groups: Sequence[str]) -> int:
    """Return the number of rows of the whole report."""
    return _grouped(wanted, groups).count()


def list_cap_uses() -> list[CapUse]:
    """Return the caps of the installation, of agents and of users, those with caps of their own first."""
    caps = [*cost_caps.installation_caps()]
    for agent in Agent.objects.filter(retired_at=None).exclude(budgets={}).order_by("agent_id"):
        caps += cost_caps.agent_caps(agent)
    own = UserCostCap.objects.order_by("pk")
    caps += [cap for row in own for cap in cost_caps.user_caps(f"user:{row.pk}", row.per_day, row.per_month)]
    known = {f"user:{row.pk}" for row in own}
    caps += [cap for actor in _costly_users() if actor not in known for cap in cost_caps.user_caps(actor)]
    return list(_uses(caps))


def list_installation_cap_uses() -> list[CapUse]:
    """Return the caps of the installation."""
    return list(_uses(list(cost_caps.installation_caps())))


def list_cap_uses_of(user_id: int) -> list[CapUse]:
    """Return the caps of one user."""
    row = UserCostCap.objects.filter(pk=user_id).first() or UserCostCap()
    return list(_uses([*cost_caps.user_caps(f"user:{user_id}", row.per_day, row.per_month)]))


def count_uncapped_calls() -> int:
    """Return the number of this month's calls without a price, which no cap counts; 0 if there is no cap."""
    today = usage_ledger.today()
    return total(UsageFilter(today.replace(day=1), today)).unpriced_calls if has_caps() else 0


def has_caps() -> bool:
    """Return whether any cost is capped: of the installation, of a user or of an agent."""
    budgets = Agent.objects.filter(retired_at=None).exclude(budgets={}).values_list("budgets", flat=True)
    in_settings = (
        settings.KOMAND_COST_PER_DAY,
        settings.KOMAND_COST_PER_MONTH,
        settings.KOMAND_USER_COST_PER_DAY,
        settings.KOMAND_USER_COST_PER_MONTH,
    )
    of_agents = (key.startswith("cost") for budget in budgets for key in budget)
    return any(in_settings) or UserCostCap.objects.exists() or any(of_agents)


def list_alerts() -> list[CostAlert]:
    """Return the alerts of this month, the newest first."""
    begins = usage_ledger.today().replace(day=1)
    return list(CostAlert.objects.filter(day__gte=begins).order_by("-pk")[:_MOST_ALERTS])


def _records(wanted: UsageFilter) -> QuerySet[DailyUsage]:
    found = DailyUsage.objects.filter(day__gte=wanted.since, day__lte=wanted.until).order_by()
    if wanted.actors is not None:
        found = found.filter(actor__in=wanted.actors)
    if wanted.agents is not None:
        found = found.filter(agent_id__in=wanted.agents)
    if wanted.session_id:
        found = found.filter(conversation_id=wanted.session_id)
    return found.filter(model=wanted.model) if wanted.model else found


def _grouped(wanted: UsageFilter, groups: Sequence[str]) -> QuerySet[Any, dict[str, Any]]:
    columns = [column for group in groups for column in GROUPS[group]]
    days = [F("day").desc()] if "day" in groups else []
    by_cost = [F("cost_nanos_sum").desc(), F("output_tokens_sum").desc()]
    grouped: QuerySet[Any, dict[str, Any]] = _records(wanted).values(*columns).annotate(**_sums())
    return grouped.order_by(*days, *by_cost, *columns)


def _sums() -> dict[str, Sum]:
    return {f"{name}_sum": Sum(name) for name in _SUMS}


def _sum_of(row: dict[str, Any]) -> UsageSum:
    fields: dict[str, Any] = {name: row.pop(f"{name}_sum") or 0 for name in _SUMS}
    fields["cost"] = fields.pop("cost_nanos") / NANOS
    return UsageSum(**fields, session_id=row.pop("conversation_id", None), **row)


def _costly_users() -> list[str]:
    """Return the users with the highest cost of this month, if each user has a cap."""
    if not (settings.KOMAND_USER_COST_PER_DAY or settings.KOMAND_USER_COST_PER_MONTH):
        return []
    begins = usage_ledger.today().replace(day=1)
    rows = CostTotal.objects.filter(day__gte=begins, scope__startswith="user:").values_list("scope")
    return [scope for scope, _ in rows.annotate(cost=Sum("cost_nanos")).order_by("-cost", "scope")[:_MOST_USERS]]


def _uses(caps: Sequence[Cap]) -> Iterator[CapUse]:
    today = usage_ledger.today()
    for cap, nanos in cost_caps.spent_of(caps, today):
        percent = int(100 * nanos / (cap.limit * NANOS)) if cap.limit else 100
        yield CapUse(cap, nanos / NANOS, percent, cap.resets(today))
