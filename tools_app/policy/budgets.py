"""The hourly action budget of an agent.

A call is charged when it is allowed, or waits for approval, in the transaction that stores it. A denied request is
refunded.
"""

from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from audit_app.kernel.advisory_lock import serialize
from tools_app.models import ToolExecution
from tools_app.policy.rules import AgentPolicy

WINDOW = timedelta(hours=1)


class ActionBudget:
    """Remaining actions of an agent, valid within the caller's transaction."""

    def __init__(self, agent_policy: AgentPolicy) -> None:
        self._agent_id = agent_policy.agent_id
        self._limit = agent_policy.budgets.actions_per_hour
        self._left = 0
        if self._limit is not None:
            serialize(f"actions of {self._agent_id}")
            self._left = self._limit - _charged(self._agent_id).count()

    def refusal(self) -> str:
        """Return why no further call is allowed and when the next one is, for the model; empty if one is allowed."""
        if self._limit is None or self._left > 0:
            return ""
        if self._limit == 0:
            return "The agent's budget allows no actions."
        return (
            f"The agent has used up its budget of {self._limit} actions an hour; the next is free at "
            f"{self._frees_at():%H:%M:%S} UTC."
        )

    def take(self) -> None:
        """Charge one call."""
        self._left -= 1

    def _frees_at(self) -> datetime:
        """Return when enough calls are older than the window that one more fits."""
        too_many = -self._left
        oldest = _charged(self._agent_id).order_by("charged_at").values_list("charged_at", flat=True)
        last = oldest[too_many : too_many + 1].first()
        return (last or timezone.now()) + WINDOW  # None: it is one of the calls being charged now


def give_back(row: ToolExecution) -> None:
    """Refund a call that was not made. Joins the caller's transaction."""
    ToolExecution.objects.filter(pk=row.pk).update(charged_at=None)


def _charged(agent_id: str) -> QuerySet[ToolExecution]:
    return ToolExecution.objects.filter(agent_id=agent_id, charged_at__gt=timezone.now() - WINDOW).order_by()
