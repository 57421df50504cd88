"""How many calls an agent made in the last hour, and whether its budget lets it make another.

A call is counted when it is let through, or asked for, in the transaction that stores it; one that a person denies is
given back.
"""

from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from tools_app.advisory_lock import serialize
from tools_app.models import ToolExecution
from tools_app.policy.rules import AgentPolicy

WINDOW = timedelta(hours=1)


class ActionBudget:
    """What is left of an agent's actions, while the caller's transaction lasts. `take` one for each call."""

    def __init__(self, agent_policy: AgentPolicy) -> None:
        self._agent_id = agent_policy.agent_id
        self._limit = agent_policy.budgets.actions_per_hour
        self._left = 0
        if self._limit is not None:
            serialize(f"actions of {self._agent_id}")
            self._left = self._limit - _charged(self._agent_id).count()

    def refusal(self) -> str:
        """Why there is no further call now and when there will be, in words for the model; empty when there is."""
        if self._limit is None or self._left > 0:
            return ""
        if self._limit == 0:
            return "The agent's budget allows it no actions."
        return (
            f"The agent has used up its budget of {self._limit} actions an hour; the next is free at "
            f"{self._frees_at():%H:%M:%S} UTC."
        )

    def take(self) -> None:
        """Count one call that is being let through."""
        self._left -= 1

    def _frees_at(self) -> datetime:
        """When so many of the counted calls have left the hour that one more fits in."""
        too_many = -self._left
        oldest = _charged(self._agent_id).order_by("charged_at").values_list("charged_at", flat=True)
        last = oldest[too_many : too_many + 1].first()
        return (last or timezone.now()) + WINDOW  # without: it is one of those that are being let through


def give_back(row: ToolExecution) -> None:
    """The call was not made after all. In the caller's transaction."""
    ToolExecution.objects.filter(pk=row.pk).update(charged_at=None)


def count_actions(agent_id: str) -> int:
    """How many calls the agent made, or has asked for, in the last hour."""
    return _charged(agent_id).count()


def _charged(agent_id: str) -> QuerySet[ToolExecution]:
    return ToolExecution.objects.filter(agent_id=agent_id, charged_at__gt=timezone.now() - WINDOW).order_by()
