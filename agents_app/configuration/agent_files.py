"""Agents as a YAML file: export, check, and import of their configuration, without sharing, owners and secrets.

A file holds the whole configuration of each agent: a field that it leaves out has its default.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import transaction

from agents_app.configuration import agent_versions, agents, prompt_templates
from agents_app.configuration.agent_access import may_change
from agents_app.configuration.agent_versions import FieldChange, configuration_of
from agents_app.configuration.autonomy import needed_rights, stored_autonomy
from agents_app.models import Agent
from agents_app.rights import CHANGE_AGENTS, CREATE_AGENTS
from agents_app.structured_output import check_schema
from agents_app.yaml_documents import Fault, Problem, UnusableFile, decode_upload, read, write
from audit_app.kernel.errors import AppError
from audit_app.rights import Right, require
from tools_app import catalogue
from tools_app.host_rules import check_host
from tools_app.models import McpServer
from tools_app.policy.patterns import check_pattern
from tools_app.skills import registry

FORMAT, MEDIA_TYPE = 1, "application/yaml"
_REFUSED = "Nothing was imported"
_HEADER = "# Agents of Komand. A field that is left out has its default.\n# Import: manage.py agents import FILE\n"
_SHOWN_ALWAYS = ("name", "provider", "system_prompt")
_PATTERNS = ("allowed_tools", "denied_tools", "always_ask", "auto_approve")
_FALLBACK = ("provider", "model")
_HOSTS = ("allowed_hosts", "denied_hosts")
_BUDGETS = ("actionsPerHour", "costPerHour", "costPerDay", "costPerMonth")
_MOST = 1e12

FieldCheck = Callable[[str, Any], Iterable[str]]


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


def plan(text: str, *, check: FieldCheck = lambda name, value: ()) -> tuple[Planned, ...]:
    """Return what an import of the document would change. Writes nothing. Raises UnusableFile with all problems.

    check: yields further faults of the value of a field.
    """
    document = read(text, _REFUSED)
    problems: list[Problem] = []

    def fault(place: str, message: str) -> None:
        problems.append(document.problem(place, message))

    planned = _plan_document(document.content, fault, check)
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


def check_rights(user: User | AnonymousUser, planned: Sequence[Planned]) -> tuple[Right, ...]:
    """Check that the user may carry out a plan. Return the rights that need a fresh login, empty if none does.

    Raises MissingRight.
    """
    fresh: list[Right] = []
    for one in planned:
        if one.agent is None:
            require(user, CREATE_AGENTS)
        elif not may_change(user, one.agent):
            require(user, CHANGE_AGENTS)
        if one.agent is None or one.changes:
            fresh += needed_rights(one.configuration, **(stored_autonomy(one.agent) if one.agent else {}))
    for right in fresh:
        require(user, right)
    return tuple(fresh)


def _plan_document(document: Any, fault: Fault, check: FieldCheck) -> tuple[Planned, ...]:
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
        configuration = _checked(place, entry, fault, check)
        agent = Agent.objects.select_related("provider").filter(agent_id=agent_id).first()
        if agent is not None and agent.retired_at:
            fault(f"{place}.id", f"the agent {agent_id!r} is retired; restore it first")
        before = configuration_of(agent) if agent else {}
        planned.append(Planned(agent_id, agent, configuration, agent_versions.compare(before, configuration)))
    return tuple(planned)


def _checked(place: str, entry: Mapping[str, Any], fault: Fault, check: FieldCheck) -> dict[str, Any]:
    """Return the whole configuration of an entry, after reporting every fault of it."""
    try:
        validate_slug(entry["id"])
    except ValidationError:
        fault(f"{place}.id", "it may have letters, digits, `-` and `_` only")
    known = {field.name: field for field in agent_versions.fields()}
    for name in entry:
        if name not in known and name != "id":
            fault(f"{place}.{name}", "there is no such field")
    configuration: dict[str, Any] = {}
    for name, field in known.items():
        value = entry.get(name, _defaults()[name])
        if name == "name":
            value = value or entry["id"]
        configuration[name] = value
        for message in list(_faults_of(field, value)) or check(name, value):
            fault(f"{place}.{name}", message)
    return configuration


def _faults_of(field: Any, value: Any) -> Iterator[str]:
    default = _defaults()[field.name]
    if not _is_storable(value):
        yield "it contains something that cannot be stored, such as NUL, NaN or a date without quotes"
        return
    if field.name == "fallbacks":
        entries = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) and {type(one.get(key)) for key in _FALLBACK} == {str} for one in entries):
            yield "it must be a list of {provider: name, model: name}"
        return
    takes_list = field.many_to_many or isinstance(default, list)
    if takes_list and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        yield "it must be a list of texts"
        return
    if field.is_relation:
        for name in value if field.many_to_many else [value]:
            if name is None and field.null:
                continue
            if not isinstance(name, str) or agent_versions.find_related(field, name) is None:
                yield f"there is no {field.related_model._meta.verbose_name} {name!r}"
        return
    try:
        field.clean(value, None)
    except ValidationError as error:
        yield from error.messages
        return
    except (TypeError, ValueError):
        yield f"{value!r} does not fit"
        return
    yield from _unknown_names(field.name, value)


def _unknown_names(name: str, value: Any) -> Iterator[str]:
    """Yield the faults of names, patterns and schemas, which the column itself does not check."""
    if name == "enabled_skill_ids":
        known = set(registry.known_ids(value))
        yield from (f"there is no skill {one!r}" for one in value if one not in known)
    elif name == "template" and value:
        try:
            prompt_templates.get_template(value)
        except AppError as error:
            yield error.message
    elif name == "mcp_servers":
        servers = set(McpServer.objects.values_list("name", flat=True))
        yield from (f"there is no MCP server {one!r}" for one in value if one not in servers)
    elif name == "enabled_tools" and value is not None:
        listed = value if isinstance(value, list) else [value]
        yield from (f"there is no tool {one!r}" for one in listed if catalogue.find_tool(str(one), "") is None)
    elif name in _PATTERNS or name in _HOSTS:
        check = check_pattern if name in _PATTERNS else check_host
        for one in value:
            try:
                check(one)
            except ValueError as error:
                yield str(error)
    elif name == "budgets":
        fits = isinstance(value, dict) and all(_is_number(number) for number in value.values())
        if not fits or not value.keys() <= set(_BUDGETS):
            yield f"it must map any of {', '.join(_BUDGETS)} to numbers from 0"
    elif name in ("retry_first_seconds", "retry_max_seconds") and not _is_number(value):
        yield "it must be a number from 0"
    elif name == "output_schema" and value is not None:
        try:
            check_schema(value)
        except AppError as error:
            yield error.message


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST


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
