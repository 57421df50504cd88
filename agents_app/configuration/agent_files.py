"""Agents as a YAML file: export, check, and import of their configuration, without sharing, owners and secrets.

A file holds the whole configuration of each agent: a field that it leaves out has its default.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ValidationError
from django.db import models, transaction

from agents_app.configuration import agent_versions, agents
from agents_app.configuration.agent_access import may_change
from agents_app.configuration.agent_versions import FieldChange, configuration_of
from agents_app.configuration.required_rights import require_rights
from agents_app.models import Agent
from agents_app.rights import CHANGE_AGENTS, CREATE_AGENTS
from agents_app.yaml_documents import Fault, Problem, UnusableFile, decode_upload, read, write
from audit_app.kernel.rules import TextListField
from audit_app.rights import require
from tools_app import catalogue
from tools_app.models import McpServer
from tools_app.skills import registry

FORMAT, MEDIA_TYPE = 1, "application/yaml"
_REFUSED = "Nothing was imported"
_HEADER = "# Agents of Komand. A field that is left out has its default.\n# Import: manage.py agents import FILE\n"
_SHOWN_ALWAYS = ("name", "provider", "system_prompt")


@dataclass(frozen=True)
class Planned:
    """The effect of a file on one agent.

    agent: None for a new one.
    changes: none if it is as in the file.
    """

    agent_id: str
    agent: Agent | None
    configuration: dict[str, Any]
    changes: tuple[FieldChange, ...]

    @property
    def is_new(self) -> bool:
        return self.agent is None


def export(agents: Collection[Agent]) -> str:
    """Return the agents as a YAML document, in the order of their ids and of the fields."""
    found = []
    for agent in sorted(agents, key=lambda agent: agent.agent_id):
        shown = {
            name: value
            for name, value in configuration_of(agent).items()
            if name in _SHOWN_ALWAYS or value != _defaults()[name]
        }
        found.append({"id": agent.agent_id, **shown})
    document = {"format": FORMAT, "agents": found}
    return _HEADER + write(document)


def read_upload(data: bytes) -> str:
    """Return the text of an uploaded file. Raises UnusableFile."""
    return decode_upload(data, _REFUSED)


def plan(text: str) -> tuple[Planned, ...]:
    """Return what an import of the document would change. Writes nothing. Raises UnusableFile with all problems."""
    document = read(text, _REFUSED)
    problems: list[Problem] = []

    def fault(place: str, message: str) -> None:
        problems.append(document.problem(place, message))

    planned = _plan_document(document.content, fault)
    if problems:
        raise UnusableFile(problems, _REFUSED)
    return planned


def apply(planned: Sequence[Planned], *, owner_id: int | None = None) -> None:
    """Create and change the agents of a plan, all or none. Each changed agent gets a version. Owns its transaction.

    owner_id: owner of new agents, whose credentials their skills use; None for the installation.
    """
    with transaction.atomic():
        for one in planned:
            if one.agent is None:
                single, many = agent_versions.resolve(one.configuration)
                agent = agents.create_agent(agent_id=one.agent_id, owner_id=owner_id, **single)
                for name, related in many.items():
                    getattr(agent, name).set(related)
                agent_versions.record_version(agent, "Imported from a file.")
            elif one.changes:
                agents.apply_configuration(
                    one.agent, one.configuration, skills_of=owner_id, note="Imported from a file."
                )


def check_rights(user: User | AnonymousUser, planned: Sequence[Planned]) -> bool:
    """Check that the user may carry out a plan. Return whether that takes a fresh login.

    Raises MissingRight.
    """
    needs_fresh_login = False
    for one in planned:
        if one.agent is None:
            require(user, CREATE_AGENTS)
        elif not may_change(user, one.agent):
            require(user, CHANGE_AGENTS)
        if one.agent is None or one.changes:
            needs_fresh_login |= require_rights(user, one.configuration, one.agent)
    return needs_fresh_login


def _plan_document(document: Any, fault: Fault) -> tuple[Planned, ...]:
    if not isinstance(document, dict) or not isinstance(document.get("agents"), list):
        fault("", "it must have a list `agents`, as `manage.py agents export` writes it")
        return ()
    if document.get("format") != FORMAT:
        fault("format", f"it must be {FORMAT}")
    planned, seen = [], set[str]()
    for number, entry in enumerate(document["agents"]):
        place = f"agents[{number}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
            fault(place, "it must be an object with an `id`")
            continue
        agent_id = entry["id"]
        if agent_id in seen:
            fault(f"{place}.id", f"{agent_id!r} is in the file twice")
        seen.add(agent_id)
        planned.append(_plan_agent(place, agent_id, entry, fault))
    return tuple(planned)


def _plan_agent(place: str, agent_id: str, entry: dict[str, Any], fault: Fault) -> Planned:
    configuration = _checked(place, entry, fault)
    agent = Agent.objects.select_related("provider").filter(agent_id=agent_id).first()
    if agent is not None and agent.retired_at:
        fault(f"{place}.id", f"the agent {agent_id!r} is retired; restore it first")
    before = configuration_of(agent) if agent else {}
    return Planned(agent_id, agent, configuration, agent_versions.compare(before, configuration))


def _checked(place: str, entry: Mapping[str, Any], fault: Fault) -> dict[str, Any]:
    """Return the whole configuration of an entry, after reporting every fault of it."""
    known = {field.name: field for field in agent_versions.fields()}
    for name in entry:
        if name not in known and name != "id":
            fault(f"{place}.{name}", "there is no such field")
    agent, configuration, faults = Agent(), dict[str, Any](), list[tuple[str, str]]()
    given = {"id": entry["id"], **{name: entry.get(name, _defaults()[name]) for name in known}}
    given["name"] = given["name"] or entry["id"]
    for name, value in given.items():
        field = known.get(name) or Agent._meta.get_field("agent_id")
        try:
            cleaned = _cleaned(field, value)
        except ValidationError as error:
            faults += ((name, message) for message in error.messages)
            continue
        if not field.many_to_many:
            setattr(agent, field.name, cleaned)
        configuration[name] = value if field.is_relation else cleaned
        faults += ((name, message) for message in _unknown_names(name, cleaned))
    if not faults:
        faults += ((name, error.message) for name, error in agents.broken_references(agent).items())
    for name, message in faults:
        fault(f"{place}.{name}", message)
    configuration.pop("id", None)
    return configuration


def _cleaned(field: Any, value: Any) -> Any:
    """Return a value by the rules of its field, relations as objects. Raises ValidationError."""
    if not _is_storable(value):
        raise ValidationError("it contains something that cannot be stored, such as NUL, NaN or a date without quotes")
    if isinstance(field, models.IntegerField | models.FloatField) and not _is_number(field, value):
        raise ValidationError(f"it must be a {'whole ' * isinstance(field, models.IntegerField)}number")
    if field.many_to_many:
        return [_related(field, name) for name in TextListField(most=1000, longest=1000).clean(value, None)]
    if field.is_relation:
        return None if value is None and field.null else _related(field, value)
    try:
        return field.clean(value, None)
    except (TypeError, ValueError):
        raise ValidationError(f"{value!r} does not fit") from None


def _related(field: Any, name: Any) -> models.Model:
    found = agent_versions.find_related(field, name) if isinstance(name, str) else None
    if found is None:
        raise ValidationError(f"there is no {field.related_model._meta.verbose_name} {name!r}")
    return found


def _is_number(field: Any, value: Any) -> bool:
    is_whole = isinstance(field, models.IntegerField) and isinstance(value, float)
    return not is_whole and not isinstance(value, bool)


def _unknown_names(name: str, value: Any) -> Iterator[str]:
    """Yield the faults of names of objects that another installation may have and this one has not."""
    if name == "enabled_skill_ids":
        known = set(registry.known_ids(value))
        yield from (f"there is no skill {one!r}" for one in value if one not in known)
    elif name in ("mcp_servers", "egress_servers"):
        servers = set(McpServer.objects.values_list("name", flat=True))
        yield from (f"there is no MCP server {one!r}" for one in value if one not in servers)
    elif name == "enabled_tools":
        yield from (f"there is no tool {one!r}" for one in value or () if catalogue.find_tool(one, "") is None)


def _is_storable(value: Any) -> bool:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return bool(text.encode()) and "\\u0000" not in text
    except (ValueError, TypeError):
        return False


def _defaults() -> dict[str, Any]:
    """Return the default of each field that is configuration."""
    found: dict[str, Any] = {}
    for field in agent_versions.fields():
        found[field.name] = [] if field.many_to_many else field.get_default()
    return found
