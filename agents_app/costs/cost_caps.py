"""Caps of costs per day and month, in UTC: of the installation, of each user and of an agent.

A cap is checked before each model call, so it is exceeded by the calls in flight at most.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Q, Sum

from agents_app import hot_queries
from agents_app.costs import usage_ledger
from agents_app.models import Agent, CostTotal
from agents_app.types.prices import NANOS, money
from audit_app import services as audit
from audit_app.kernel.after_commit import after_commit

logger = logging.getLogger(__name__)

_OWN = "this agent"
_BUDGETS = {"day": "daily budget", "month": "monthly budget"}
_ADD_ALERT = """
    INSERT INTO komand_cost_alert (scope, period, day, level) VALUES (%s, %s, %s, %s)
    ON CONFLICT (scope, period, day, level) DO NOTHING
"""


@dataclass(frozen=True)
class Cap:
    """A cap.

    owner: shown to users.
    period: day | month.
    remedy: where an operator raises it, shown to those who see costs.
    """

    scope: str
    owner: str
    period: str
    limit: float
    remedy: str

    def begins(self, today: date) -> date:
        """Return the first day of the period."""
        return today.replace(day=1) if self.period == "month" else today

    def resets(self, today: date) -> date:
        """Return the first day of the next period."""
        if self.period == "month":
            return (today.replace(day=28) + timedelta(days=4)).replace(day=1)
        return today + timedelta(days=1)


def caps_of(agents: Sequence[Agent], actor: str) -> Iterator[Cap]:
    """Yield the caps of a call. Senders of channels have none of their own.

    agents: that of the run first, then those of the runs above it.
    """
    yield from installation_caps()
    if actor.removeprefix("user:").isdecimal():
        own = hot_queries.GET_USER_CAPS.rows(user_id=int(actor.removeprefix("user:")))
        yield from user_caps(actor, *(own[0] if own else ()))
    for place, agent in enumerate(agents):
        yield from agent_caps(agent, f"the agent {agent.agent_id} above this workstream" if place else _OWN)


def installation_caps() -> Iterator[Cap]:
    """Yield the caps of all calls together."""
    for period, limit in (("day", settings.KOMAND_COST_PER_DAY), ("month", settings.KOMAND_COST_PER_MONTH)):
        if limit:
            name = f"KOMAND_COST_PER_{period.upper()}"
            yield Cap(usage_ledger.INSTALLATION, "this installation", period, limit, name)


def user_caps(actor: str, own_per_day: float | None = None, own_per_month: float | None = None) -> Iterator[Cap]:
    """Yield the caps of a user, by whom a run was started. own: in place of those of the settings; None: not set."""
    everyones = (settings.KOMAND_USER_COST_PER_DAY, settings.KOMAND_USER_COST_PER_MONTH)
    for period, own, common in zip(("day", "month"), (own_per_day, own_per_month), everyones, strict=True):
        name = f"KOMAND_USER_COST_PER_{period.upper()}" if own is None else "the user's cost caps"
        if limit := common if own is None else own:
            yield Cap(actor, "this user", period, limit, name)


def agent_caps(agent: Agent, owner: str = _OWN) -> Iterator[Cap]:
    """Yield the caps of an agent. One of 0 forbids all calls."""
    for period, key in (("day", "costPerDay"), ("month", "costPerMonth")):
        if (limit := agent.budgets.get(key)) is not None:
            yield Cap(f"agent:{agent.agent_id}", owner, period, limit, f"the agent's {key}")


def refusal(agents: Sequence[Agent], actor: str) -> str:
    """Return the reason, for users, why a cap forbids a model call now; empty if none does. Reads only."""
    today = usage_ledger.today()
    for cap, nanos in spent_of(list(caps_of(agents, actor)), today):
        if nanos >= cap.limit * NANOS:
            until = f"{cap.resets(today):%Y-%m-%d}, 00:00 UTC" if cap.limit else ""
            return used_up(_BUDGETS[cap.period], cap.owner, until)
    return ""


def used_up(budget: str, owner: str, until: str) -> str:
    """Return the refusal for users. until: the time from which calls are possible again; empty if none is known."""
    later = f", or try again after {until}" if until else ""
    return f"The {budget} of {owner} is used up. Ask your administrator{later}."


def send_alerts(agents: Sequence[Agent], actor: str) -> None:
    """Audit and log, once a period, that a cap is nearly or wholly used up, in the caller's transaction."""
    today = usage_ledger.today()
    for cap, nanos in spent_of(list(caps_of(agents, actor)), today):
        share = 100 * nanos / (cap.limit * NANOS) if cap.limit else 100.0
        level = "reached" if share >= 100 else "near" if share >= settings.KOMAND_COST_ALERT_PERCENT else ""
        if level and _is_first(cap, cap.begins(today), level):
            spent, limit = (money(value, settings.KOMAND_CURRENCY) for value in (nanos / NANOS, cap.limit))
            details = {"scope": cap.scope, "period": cap.period, "level": level, "spent": spent, "cap": limit}
            audit.record("CostAlert", actor="system", details=details)
            text = "cost cap per %s of %s: %s of %s is used up"
            after_commit(logger.warning, text, cap.period, cap.scope, spent, limit)


def spent_of(caps: Sequence[Cap], today: date) -> list[tuple[Cap, int]]:
    """Return the caps with the cost of their period so far, in billionths. No query without caps."""
    if not caps:
        return []
    rows = CostTotal.objects.filter(scope__in={cap.scope for cap in caps}, day__gte=today.replace(day=1))
    in_day = Sum("cost_nanos", filter=Q(day=today))
    sums = rows.values_list("scope").annotate(month=Sum("cost_nanos"), today=in_day).order_by()
    found = {scope: {"month": month or 0, "day": day or 0} for scope, month, day in sums}
    return [(cap, found.get(cap.scope, {}).get(cap.period, 0)) for cap in caps]


def _is_first(cap: Cap, day: date, level: str) -> bool:
    """Store that the alert of this period is sent. Return False if it was."""
    with connection.cursor() as cursor:
        cursor.execute(_ADD_ALERT, [cap.scope, cap.period, connection.ops.adapt_datefield_value(day), level])
        return bool(cursor.rowcount == 1)
