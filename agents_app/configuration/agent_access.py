"""The sharing of agents: who may use one, who sees its configuration, and who changes it.

An agent is used by its owner, by the users and groups that it is shared with, or by everyone. An agent without an owner
belongs to the installation. Holders of CHANGE_AGENTS change and use every agent, holders of VIEW_AGENTS see every one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, Group, User
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from agents_app import hot_queries
from agents_app.configuration import agent_versions
from agents_app.configuration.required_rights import require_rights
from agents_app.models import Agent
from agents_app.rights import CHANGE_AGENTS, VIEW_AGENTS
from audit_app import services as audit
from audit_app.kernel.errors import Forbidden, InvalidInput, NotFound, found
from audit_app.rights import Right, holds
from tools_app.storage import memory_holders


@dataclass(frozen=True)
class Sharing:
    """The sharing of an agent: with everyone, with users by user name, with groups by name."""

    everyone: bool = False
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class HiddenAgent(NotFound):
    """An agent that the user may not use: the same error as for no agent. agent: for the audit log."""

    code = "unknown_agent"

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        super().__init__(no_agent(agent.agent_id))


class AgentNotShared(Forbidden):
    """The agent of a session is not shared with the user who writes into it. agent: for the audit log."""

    code = "agent_not_shared"

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        super().__init__(
            f"The agent {agent.agent_id} of this session is not shared with you. Choose another agent for the session, "
            f"or ask the agent's owner, or a user with the right {CHANGE_AGENTS.permission}, to share it."
        )


def get_agent(agent_id: str) -> Agent:
    """Return the agent with this public id, with its provider. Raises NotFound for an unknown or retired agent."""
    return found(hot_queries.GET_AGENT.first(agent_id=agent_id), no_agent(agent_id), code="unknown_agent")


def no_agent(agent_id: str) -> str:
    """Return the error message for an unknown agent."""
    return f"There is no agent {agent_id!r}."


def may_use(user: User | AnonymousUser, agent: Agent) -> bool:
    """Return whether the user may send messages to the agent. No query for the owner and an agent of everyone."""
    if not user.is_active or not user.is_authenticated:
        return False
    if agent.is_shared_with_everyone or agent.owner_id == user.pk:
        return True
    return Agent.objects.filter(_shared_with(user), pk=agent.pk).exists() or holds(user, CHANGE_AGENTS)


def may_change(user: User | AnonymousUser, agent: Agent) -> bool:
    """Return whether the user may configure and share the agent."""
    is_owner = user.is_active and agent.owner_id is not None and agent.owner_id == user.pk
    return is_owner or holds(user, CHANGE_AGENTS)


def may_view(user: User | AnonymousUser, agent: Agent) -> bool:
    """Return whether the user may see the agent's prompt, rules, hosts, budgets and grants."""
    return may_change(user, agent) or holds(user, VIEW_AGENTS)


def check_version(user: User | AnonymousUser, agent: Agent, number: int) -> None:
    """Check that the user may run a version of the agent, as someone who could publish it.

    Raises Forbidden (version_not_allowed), MissingRight, NotFound (unknown_version).
    """
    if not may_change(user, agent):
        message = "Only its owner, or a user who may change agents, may choose a version of this agent."
        raise Forbidden(message, code="version_not_allowed")
    require_rights(user, agent_versions.get_version(agent, number).configuration, agent)


def get_usable_agent(
    user: User | AnonymousUser, agent_id: str, *, or_visible: bool = False, or_held: Right | None = None
) -> Agent:
    """Return an agent that the user may use, with its provider.

    or_visible: or see.
    or_held: or over which the user has this right. Raises NotFound (unknown_agent), as HiddenAgent if there is one,
        which the caller records (`record_refusal`).
    """
    agent = get_agent(agent_id)
    if may_use(user, agent) or (or_visible and may_view(user, agent)) or (or_held and holds(user, or_held)):
        return agent
    raise HiddenAgent(agent)


def usable_agents(user: User | AnonymousUser, *, or_visible: bool = False) -> QuerySet[Agent]:
    """Return the agents that the user may use. Retired ones are left out. or_visible: or see."""
    rows = Agent.objects.filter(retired_at=None)
    if holds(user, CHANGE_AGENTS) or (or_visible and holds(user, VIEW_AGENTS)):
        return rows
    usable = Q(is_shared_with_everyone=True) | Q(owner_id=user.pk) | _shared_with(user)
    return rows.filter(usable) if user.is_active and user.is_authenticated else rows.none()


def user_of(conversation_id: UUID, actor: str) -> User | AnonymousUser | None:
    """Return the user who is the actor of a run, or with whom its sender is linked or paired; None for other senders.

    A user who was deactivated or deleted is anonymous.
    """
    user_id = memory_holders.find_user(conversation_id, actor)
    if user_id is None:
        return None
    return User.objects.filter(pk=user_id, is_active=True).first() or AnonymousUser()


def agents_for(user: User | AnonymousUser | None) -> QuerySet[Agent]:
    """Return the agents that a run may use for the person behind it. None, a sender: those shared with everyone."""
    return (
        usable_agents(user) if user is not None else Agent.objects.filter(retired_at=None, is_shared_with_everyone=True)
    )


def check_still_shared(user: User, agent: Agent) -> None:
    """Raise AgentNotShared unless the user may use the agent of their session."""
    if not may_use(user, agent):
        raise AgentNotShared(agent)


def record_refusal(user: User | AnonymousUser, refusal: HiddenAgent | AgentNotShared) -> None:
    """Audit that the user was refused an agent. Call it outside of the transaction that the refusal rolls back."""
    actor = f"user:{user.pk}" if user.pk else ""
    audit.record("AgentRefused", actor=actor, agent_id=refusal.agent.agent_id)


def get_sharing(agent: Agent) -> Sharing:
    users = agent.shared_users.order_by("username").values_list("username", flat=True)
    groups = agent.shared_groups.order_by("name").values_list("name", flat=True)
    return Sharing(agent.is_shared_with_everyone, tuple(users), tuple(groups))


def share_agent(agent: Agent, sharing: Sharing) -> None:
    """Replace the sharing of an agent. Owns its transaction. Raises InvalidInput (unknown_user, unknown_group)."""
    users = list(User.objects.filter(username__in=sharing.users))
    groups = list(Group.objects.filter(name__in=sharing.groups))
    _check_known("user", sharing.users, (user.username for user in users))
    _check_known("group", sharing.groups, (group.name for group in groups))
    with transaction.atomic():
        agent.is_shared_with_everyone = sharing.everyone
        agent.save(update_fields=["is_shared_with_everyone", "updated_at"])
        agent.shared_users.set(users)
        agent.shared_groups.set(groups)
        audit.record("AgentShared", agent_id=agent.agent_id, details=vars(sharing))


def _check_known(kind: str, wanted: Iterable[str], found: Iterable[str]) -> None:
    if missing := sorted(set(wanted) - set(found)):
        raise InvalidInput(f"There is no {kind} {missing[0]!r}.", code=f"unknown_{kind}")


def _shared_with(user: User | AnonymousUser) -> Q:
    """Return the condition of an agent that is shared with the user by name, or with a group of theirs."""
    users = Agent.shared_users.through.objects.filter(agent=OuterRef("pk"), user=user.pk)
    groups = Agent.shared_groups.through.objects.filter(agent=OuterRef("pk"), group__user=user.pk)
    return Q(Exists(users)) | Q(Exists(groups))
