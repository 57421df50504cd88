"""The agents that a user can choose: a menu of all if they are few; else of those used last, and a search."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import F, Q, QuerySet, TextField
from django.db.models.functions import Cast

from agents_app.models import DEMO, Agent
from sessions_app.access import find_agents
from sessions_app.models import Session
from sessions_app.services import WEB_CHAT

MOST_LISTED = 20
MOST_FOUND = 50
_RECENT = 5
_RECENT_SESSIONS = 100
_MOST_WORDS = 8


@dataclass(frozen=True)
class AgentMenu:
    """A menu.

    agents: each with `hears`, the model by which it takes dictation, or empty, and the kind of its provider.
    is_searched: there are more agents than it lists.
    """

    agents: Sequence[Agent]
    is_searched: bool

    def chosen(self, agent_id: str) -> Agent | None:
        """Return the agent with this public id, None if the menu does not list it."""
        return next((agent for agent in self.agents if agent.agent_id == agent_id), None)

    @property
    def takes_dictation(self) -> bool:
        return any(getattr(agent, "hears", "") for agent in self.agents)

    @property
    def is_demo_only(self) -> bool:
        """Return whether no listed agent has a real model."""
        return all(getattr(agent, "provider_kind", "") == DEMO for agent in self.agents)


def read_menu(user: User, current: str, bound: Agent | None) -> AgentMenu:
    """Return the menu of a page.

    current: the public id of the agent that is chosen.
    bound: the agent of the session, which is listed even if the user may no longer choose it.
    """
    listed = list(_serving(user)[: MOST_LISTED + 1])
    is_searched = len(listed) > MOST_LISTED
    if is_searched:
        listed = list(_serving(user).filter(Q(pk__in=_recent(user)) | Q(agent_id=current)))
    if bound is not None and bound not in listed:
        listed.append(bound)
    return AgentMenu(listed, is_searched)


def search_agents(user: User, query: str) -> list[Agent]:
    """Return the agents whose name, id or description contains each word, at most MOST_FOUND, those used last first."""
    rows = _serving(user)
    for word in query.replace("\0", "").split()[:_MOST_WORDS]:
        rows = rows.filter(Q(name__icontains=word) | Q(agent_id__icontains=word) | Q(description__icontains=word))
    recent = _recent(user)
    used = sorted(rows.filter(pk__in=recent), key=lambda agent: recent.index(agent.pk))
    return [*used, *rows.exclude(pk__in=recent)[: MOST_FOUND - len(used)]]


def _serving(user: User) -> QuerySet[Agent]:
    """Return the agents that the user may choose on this page, by id, with what a menu shows."""
    rows = find_agents(user).select_related(None).only("agent_id", "name", "description", "starters")
    rows = rows.alias(channels=Cast("allowed_channels", TextField()))
    rows = rows.annotate(hears=F("provider__transcription_model"), provider_kind=F("provider__kind"))
    return rows.filter(Q(channels="[]") | Q(channels__contains=f'"{WEB_CHAT}"'))


def _recent(user: User) -> list[UUID]:
    """Return the keys of the agents of the user's newest sessions."""
    newest = Session.objects.filter(owner_id=user.pk, deleted_at=None).order_by("-last_active_at")
    return list(dict.fromkeys(newest.values_list("agent_id", flat=True)[:_RECENT_SESSIONS]))[:_RECENT]
