"""Stored networks: create, change, delete, and find those that a user may see or change."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents_app.models import Agent, NetworkVersion, StoredNetwork
from agents_app.models.networks import LONGEST_DEFINITION
from agents_app.networks import yaml_format
from agents_app.networks.checks import Fault
from agents_app.networks.definition import Network, Task
from agents_app.rights import VIEW_NETWORKS
from agents_app.yaml_documents import UnusableFile
from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound, found
from audit_app.rights import Right, holds
from tools_app import catalogue
from tools_app.models import McpServer

_RESERVED = ("check", "runs")  # their addresses are taken
_UNKNOWN = "There is no such network."


def read(text: str, among: QuerySet[Agent]) -> Network:
    """Return the network of a file. Raises UnusableFile, also for agents, tools and MCP servers that do not exist.

    among: the agents that its author may use; others do not exist for the author.
    """
    if len(text) > LONGEST_DEFINITION:
        raise InvalidInput(f"A network may have at most {LONGEST_DEFINITION:,} characters.", code="too_long")
    network, document = yaml_format.load_with_lines(text)
    faults = [*_unknown_names(network, among)]
    if network.name in _RESERVED:
        faults.insert(0, Fault("name", f"a network cannot be called {network.name!r}"))
    if faults:
        raise UnusableFile([document.problem(fault.place, fault.message) for fault in faults], yaml_format.REFUSED)
    return network


def create(text: str, among: QuerySet[Agent], *, owner_id: int | None, is_shared: bool = False) -> StoredNetwork:
    """Store a new network under the name in its file. Owns its transaction. among: as for `read`.

    Raises UnusableFile, Conflict (network_exists).
    """
    network = read(text, among)
    stored = StoredNetwork(name=network.name, owner_id=owner_id, is_shared_with_everyone=is_shared)
    _define(stored, network, text)
    try:
        with transaction.atomic():
            stored.save(force_insert=True)
            _record(stored, "NetworkCreated")
    except IntegrityError:
        raise Conflict(f"The network {network.name!r} already exists.", code="network_exists") from None
    return stored


def change(
    stored: StoredNetwork, among: QuerySet[Agent], *, text: str | None = None, is_shared: bool | None = None
) -> StoredNetwork:
    """Give a network another definition, as its next version, or share it. Owns its transaction. among: as for `read`.

    Raises UnusableFile, InvalidInput (network_name_fixed), NotFound (unknown_network; it was deleted meanwhile).
    """
    network = read(text, among) if text is not None else None
    if network and network.name != stored.name:
        raise InvalidInput("The name of a network cannot be changed. Create a new network.", code="network_name_fixed")
    with transaction.atomic():
        row = _lock(stored)
        if is_shared is not None:
            row.is_shared_with_everyone = is_shared
        if network and text is not None and text != row.definition:
            _define(row, network, text)
            row.version += 1
        row.save()
        _record(row, "NetworkChanged")
    return row


def _define(stored: StoredNetwork, network: Network, text: str) -> None:
    stored.definition, stored.description = text, network.description[:300]


def _lock(stored: StoredNetwork) -> StoredNetwork:
    row = StoredNetwork.objects.select_for_update(no_key=True).filter(pk=stored.pk).first()
    return found(row, _UNKNOWN, code="unknown_network")


def delete(stored: StoredNetwork) -> None:
    """Delete a network. Its runs continue. Owns its transaction."""
    with transaction.atomic():
        audit.record("NetworkDeleted", details={"network": stored.name})
        stored.delete()


def visible_networks(user: User | AnonymousUser | None) -> QuerySet[StoredNetwork]:
    """Return the networks that the user may see and, if the user may use their agents, run.

    user: None for a sender of a channel who is no user: those shared with everyone.
    """
    if user is None:
        return StoredNetwork.objects.filter(is_shared_with_everyone=True)
    if not user.is_active or not user.is_authenticated:
        return StoredNetwork.objects.none()
    rows = StoredNetwork.objects.all()
    return rows if holds(user, VIEW_NETWORKS) else rows.filter(Q(owner_id=user.pk) | Q(is_shared_with_everyone=True))


def get_visible(user: User | AnonymousUser | None, name: str, *, or_held: Right | None = None) -> StoredNetwork:
    """Return a network that the user may see, or over which the user has a right. Raises NotFound (unknown_network).

    user: as for `visible_networks`.
    """
    rows = StoredNetwork.objects.all() if user and or_held and holds(user, or_held) else visible_networks(user)
    stored = rows.filter(name=name).first()
    if stored is None:
        raise NotFound(_UNKNOWN, code="unknown_network")
    return stored


def get_runnable(user: User | AnonymousUser | None, name: str, among: QuerySet[Agent]) -> StoredNetwork:
    """Return a network that the user may see, and all of whose agents are among those that the user may use.

    user: as for `visible_networks`.
    Raises NotFound (unknown_network) and UnusableFile, with the agents that are not.
    """
    stored = get_visible(user, name)
    read(stored.definition, among)
    return stored


def options_of(stored: StoredNetwork, context: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the option of a run that executes the network, in its present version. context: values of the call."""
    shown = {"name": stored.name, "version": stored.version, "definition": stored.definition}
    return {**shown, "context": dict(context or {})}


def agents_of(network: Network) -> tuple[str, ...]:
    """Return the public ids of the agents of a network's tasks."""
    return tuple(dict.fromkeys(task.agent for _, task in network.placed() if task.has_agent))


def _record(stored: StoredNetwork, action: str) -> None:
    NetworkVersion.objects.get_or_create(
        network=stored,
        number=stored.version,
        defaults={"definition": stored.definition, "actor": context.actor.get(), "created_at": timezone.now()},
    )
    audit.record(action, details={"network": stored.name, "version": stored.version})


def _unknown_names(network: Network, among: QuerySet[Agent]) -> Iterator[Fault]:
    usable = among.filter(agent_id__in=agents_of(network), retired_at=None)
    agents = set(usable.order_by().values_list("agent_id", flat=True))
    servers = set(McpServer.objects.values_list("name", flat=True))
    scoped: list[tuple[str, Network | Task]] = [
        ("", network),
        *((f"{place}.", task) for place, task in network.placed()),
    ]
    for place, item in scoped:
        if isinstance(item, Task) and item.has_agent and item.agent not in agents:
            yield Fault(f"{place}agent", f"there is no agent {item.agent!r}")
        for name in item.tools.names:
            if catalogue.find_tool(name, "") is None:
                yield Fault(f"{place}tools", f"there is no tool {name!r}")
        for name in item.mcp_servers.names:
            if name not in servers:
                yield Fault(f"{place}mcp_servers", f"there is no MCP server {name!r}")
