"""Routes: the agent or the network that answers, by chat and sender.

Operators set them. What a sender chooses by /agent is stored as a route, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from agents_app.models import Agent, StoredNetwork
from agents_app.network_runs import library
from agents_app.networks import yaml_format
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, Forbidden
from audit_app.kernel.rules import check_row
from sessions_app import hot_queries
from sessions_app.channels import open_access
from sessions_app.models import ChannelAccount, ChannelRoute
from sessions_app.platforms.registry import channels

_EXISTS = "There is a route for this chat and sender already. Change that one instead."


@dataclass(frozen=True)
class Place:
    """The place of a message: its account, chat and sender. is_direct: nobody else is in the chat."""

    account: ChannelAccount
    chat_id: str
    sender_id: str
    is_direct: bool = True


@dataclass(frozen=True)
class Routing:
    """The agent of a message's session, and the network that answers instead of it, if any.

    agent_name: its display name, if a route has chosen it; empty if the account has.
    """

    agent_id: str
    network: StoredNetwork | None = None
    agent_name: str = ""

    @property
    def is_routed(self) -> bool:
        return bool(self.agent_name)


def find(place: Place) -> Routing:
    """Return the agent or network that answers a message: of the first matching route, else the account's. One query.

    Routes of operators for the sender or the chat come first, then a sender's choice, then the route for everyone.
    """
    default = place.account.agent.agent_id if place.account.agent else "default"
    for route in _matching(place):
        if route.network:
            return Routing(default, network=route.network)
        if route.agent and (not route.is_chosen or may_choose(place.account, route.agent)):
            return Routing(route.agent.agent_id, agent_name=route.agent.name or route.agent.agent_id)
    return Routing(default)


def check_channel(network: StoredNetwork, channel: str) -> None:
    """Raise Forbidden (channel_not_allowed) if an agent of the network does not serve the channel of this name."""
    _check_served(library.agents_of(yaml_format.load(network.definition)), channel)


def check_target(account: ChannelAccount, agent: Agent | None, network: StoredNetwork | None) -> None:
    """Raise Forbidden (channel_not_allowed) if the agent, or one of the network, does not serve the channel."""
    adapter = channels.find(account.channel)
    if network and adapter:
        check_channel(network, adapter.name)
    elif agent and adapter:
        _check_served([agent.agent_id], adapter.name)


def _check_served(agent_ids: Iterable[str], channel: str) -> None:
    rows = Agent.objects.filter(agent_id__in=agent_ids).values_list("agent_id", "allowed_channels")
    for agent_id, allowed in rows:
        if allowed and channel not in allowed:
            raise Forbidden(f"The agent {agent_id} does not serve {channel}.", code="channel_not_allowed")


def list_choosable(account: ChannelAccount) -> list[Agent]:
    """Return the agents that the account's senders may choose, by id."""
    rows = Agent.objects.filter(agent_id__in=open_access.choosable_ids(account)).order_by("agent_id")
    return [agent for agent in rows if may_choose(account, agent)]


def may_choose(account: ChannelAccount, agent: Agent) -> bool:
    """Return whether the account lists the agent, which is not retired and serves the channel."""
    serves = not agent.allowed_channels or channels.get(account.channel).name in agent.allowed_channels
    return serves and agent.retired_at is None and agent.agent_id in open_access.choosable_ids(account)


def is_fixed(place: Place) -> bool:
    """Return whether an operator has chosen for this sender or chat, so that its senders cannot."""
    return any(not route.is_chosen and (route.chat_id or route.sender_id) for route in _matching(place))


def choose(place: Place, agent: Agent) -> None:
    """Store the agent that a sender has chosen: for the direct chat, or for everyone in a group. Audited.

    In the caller's transaction, which has checked `may_choose` and `is_fixed`.
    """
    changed = {"agent": agent, "network": None, "is_chosen": True}
    ChannelRoute.objects.update_or_create(**_choice_of(place), defaults=changed)
    _record_choice(place, agent.agent_id)


def forget_choice(place: Place) -> None:
    """Delete what senders have chosen in this place, in the caller's transaction. Audited."""
    if ChannelRoute.objects.filter(**_choice_of(place), is_chosen=True).delete()[0]:
        _record_choice(place, "")


def save(route: ChannelRoute) -> ChannelRoute:
    """Store a new or changed route of an operator, who may use its agent or network. Owns its transaction.

    It replaces what a sender has chosen there.
    Raises InvalidInput (route_target), Conflict (route_exists), Forbidden (channel_not_allowed).
    """
    check_row(route)
    check_target(route.account, route.agent, route.network)
    is_new, route.is_chosen = route._state.adding, False
    try:
        with transaction.atomic():
            place = {"account": route.account, "chat_id": route.chat_id, "sender_id": route.sender_id}
            ChannelRoute.objects.filter(**place, is_chosen=True).exclude(pk=route.pk).delete()
            route.save()
            _record("ChannelRouteCreated" if is_new else "ChannelRouteUpdated", route)
    except IntegrityError:
        raise Conflict(_EXISTS, code="route_exists") from None
    return route


def remove(route: ChannelRoute) -> None:
    """Delete a route. Owns its transaction. Sessions go back to what answers now with their next message."""
    with transaction.atomic():
        _record("ChannelRouteDeleted", route)
        route.delete()


def move_chat(account: ChannelAccount, old: str, new: str) -> None:
    """Give routes the new id of a chat, in the caller's transaction. A route that exists there is kept."""
    for name in ("chat_id", "sender_id"):
        rows: QuerySet[ChannelRoute] = ChannelRoute.objects.filter(account=account, **{name: old})
        for route in rows:
            setattr(route, name, new)
            taken = ChannelRoute.objects.filter(account=account, chat_id=route.chat_id, sender_id=route.sender_id)
            if not taken.exists():
                route.save(update_fields=[name, "updated_at"])


def _matching(place: Place) -> Iterable[ChannelRoute]:
    """Return the routes of a place, in the order in which they count."""
    rows = hot_queries.LIST_CHANNEL_ROUTES.fetch(
        account_id=place.account.pk, chat_id=place.chat_id, sender_id=place.sender_id
    )
    return sorted(rows, key=_rank)


def _rank(route: ChannelRoute) -> tuple[bool, bool, bool, bool]:
    """Order routes: of a sender in a chat, of a sender, of a chat; those that senders chose; that of everyone."""
    is_of_all = not (route.sender_id or route.chat_id)
    return is_of_all, route.is_chosen, not route.sender_id, not route.chat_id


def _choice_of(place: Place) -> dict[str, Any]:
    """Return the columns of the route that a sender's choice is stored as."""
    sender_id = place.sender_id if place.is_direct else ""
    return {"account": place.account, "chat_id": place.chat_id, "sender_id": sender_id}


def _record_choice(place: Place, agent_id: str) -> None:
    details = {"account": str(place.account), "chat_id": place.chat_id, "sender_id": place.sender_id}
    audit.record("AgentChosen", agent_id=agent_id, details=details)


def _record(action: str, route: ChannelRoute) -> None:
    target = {"network": route.network.name} if route.network else {"agent": route.agent and route.agent.agent_id}
    place = {"chat_id": route.chat_id, "sender_id": route.sender_id}
    audit.record(action, details={"id": str(route.pk), "account": str(route.account), **place, **target})
