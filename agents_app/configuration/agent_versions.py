"""Versions of an agent's configuration: stored with each change, compared, and used by runs that name one.

The configuration is every field and relation of Agent but NOT_CONFIGURATION. Version DRAFT is edited without an effect
on runs, until it is published.
"""

import copy
import difflib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from agents_app.models import Agent, AgentVersion, ModelProvider, Run
from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import InvalidInput, NotFound

logger = logging.getLogger(__name__)

DRAFT = 0
BASELINE = "The first stored version."
# Identity, times and sharing: a version must not give back an access that was taken away.
NOT_CONFIGURATION = frozenset(
    ("id", "agent_id", "owner_id", "version", "created_at", "updated_at", "retired_at")
    + ("is_shared_with_everyone", "shared_users", "shared_groups")
)
_NAME_FIELDS = ("name", "agent_id", "username")
_LONG = 80


@dataclass(frozen=True)
class FieldChange:
    """A field that differs between two configurations. diff: a unified diff of long texts, else empty."""

    field_name: str
    before: Any
    after: Any
    diff: str


def fields() -> tuple[Any, ...]:
    """Return the fields of Agent that are configuration, in the order of their declaration."""
    declared = [*Agent._meta.concrete_fields, *Agent._meta.many_to_many]
    return tuple(field for field in declared if field.name not in NOT_CONFIGURATION)


def configuration_of(agent: Agent) -> dict[str, Any]:
    """Return the configuration of an agent as JSON, by field. Other objects are named by their public names."""
    found: dict[str, Any] = {}
    for field in fields():
        value = getattr(agent, field.name)
        if field.many_to_many:
            found[field.name] = sorted(_name_of(related) for related in value.all())
        elif field.is_relation:
            found[field.name] = None if value is None else _name_of(value)
        else:
            found[field.name] = value if _is_json(value) else field.value_to_string(agent)
    return found


def applied(agent: Agent, configuration: Mapping[str, Any]) -> Agent:
    """Return a copy of the agent with this configuration, for reading: it must not be saved.

    Relations to several objects stay as the agent has them. An object that no longer exists is left as it is.
    """
    changed = copy.copy(agent)
    for field in fields():
        if field.name not in configuration or field.many_to_many:
            continue
        value = configuration[field.name]
        if field.is_relation and value is not None:
            value = find_related(field, value)
            if value is None:
                logger.warning("agent %s: %s of the version does not exist", agent.agent_id, field.name)
                continue
        setattr(changed, field.name, value if _is_json(value) or field.is_relation else field.to_python(value))
    return changed


def find_related(field: Any, name: str) -> models.Model | None:
    """Return the object of a relation by its public name."""
    model = field.related_model
    rows = model._default_manager.filter(**{_name_field(model): name})
    if model is ModelProvider:
        rows = rows.filter(is_enabled=True)
    found: models.Model | None = rows.first()
    return found


def resolve(configuration: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the values of a configuration by field, and the objects of relations to several.

    The provider stays a name. Raises InvalidInput (unknown_name) for an object that does not exist.
    """
    single: dict[str, Any] = {}
    many: dict[str, list[Any]] = {}
    for field in fields():
        if field.name not in configuration:
            continue
        value = configuration[field.name]
        if field.many_to_many:
            many[field.name] = [_known(field, name) for name in value]
        elif field.is_relation:
            single[field.name] = value if field.name == "provider" or value is None else _known(field, value)
        else:
            single[field.name] = field.to_python(value)
    return single, many


def _known(field: Any, name: str) -> models.Model:
    related = find_related(field, name)
    if related is None:
        raise InvalidInput(f"`{field.name}`: there is no {name!r}.", code="unknown_name")
    return related


def use_version(run: Run) -> Run:
    """Let a run that names a version of its agent see the agent with that configuration. Return the run.

    run: loaded with its agent. A draft that was published or discarded meanwhile is no version: the agent stays as it
    is now. The only place where a run's configuration is chosen.
    """
    number = run.options.get("agent_version")
    if number is not None and (version := AgentVersion.objects.filter(agent=run.agent_id, number=number).first()):
        run.agent = applied(run.agent, version.configuration)
    return run


def record_version(agent: Agent, note: str = "") -> int:
    """Store the configuration as a new version if it differs from the last one. Return the present version's number.

    In the caller's transaction or its own; locks the agent's row, and reads it anew.
    """
    with transaction.atomic():
        row = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
        configuration = configuration_of(row)
        last = AgentVersion.objects.filter(agent=row, number__gt=DRAFT).order_by("-number").first()
        if last is None or last.configuration != json.loads(json.dumps(configuration)):
            number = last.number + 1 if last else 1
            _store(row, number, configuration, note)
            Agent.objects.filter(pk=row.pk).update(version=number)
            agent.version = number
        else:
            agent.version = last.number
        return agent.version


def record_missing() -> None:
    """Store the first version of each agent that has none, such as the seeded ones. Called when the server starts."""
    for agent in Agent.objects.filter(version=0):
        record_version(agent, BASELINE)


def list_versions(agent: Agent) -> tuple[AgentVersion, ...]:
    """Return the published versions, the newest first, without the draft."""
    return tuple(AgentVersion.objects.filter(agent=agent, number__gt=DRAFT).order_by("-number"))


def get_version(agent: Agent, number: int) -> AgentVersion:
    """Return a version. Raises NotFound (unknown_version)."""
    version = AgentVersion.objects.filter(agent=agent, number=number).first()
    if version is None:
        text = f"The agent {agent.agent_id} has no {'draft' if number == DRAFT else f'version {number}'}."
        raise NotFound(text, code="unknown_version")
    return version


def find_draft(agent: Agent) -> AgentVersion | None:
    return AgentVersion.objects.filter(agent=agent, number=DRAFT).first()


def save_draft(agent: Agent, changes: Mapping[str, Any], note: str = "") -> AgentVersion:
    """Change fields of the draft, which begins as the published configuration. Owns its transaction.

    changes: checked values by field, relations by name. Raises InvalidInput for a field that is no configuration.
    """
    known = {field.name for field in fields()}
    if unknown := sorted(changes.keys() - known):
        raise InvalidInput(f"`{unknown[0]}` is not part of a draft: it applies at once.", code="not_configuration")
    with transaction.atomic():
        row = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
        draft = find_draft(row)
        configuration = {**(draft.configuration if draft else configuration_of(row)), **changes}
        if draft:
            draft.delete()
        stored = _store(row, DRAFT, configuration, note)
        audit.record("AgentDraftSaved", agent_id=agent.agent_id, details={"fields": sorted(changes)})
        return stored


def discard_draft(agent: Agent) -> None:
    """Delete the draft. Raises NotFound (unknown_version)."""
    with transaction.atomic():
        get_version(agent, DRAFT).delete()
        audit.record("AgentDraftDiscarded", agent_id=agent.agent_id)


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """Return the fields that differ, in the order of `before`, then new ones."""
    names = [*before, *(name for name in after if name not in before)]
    changed = (name for name in names if before.get(name) != after.get(name))
    return tuple(_change(name, before.get(name), after.get(name)) for name in changed)


def _change(name: str, before: Any, after: Any) -> FieldChange:
    texts = [value if isinstance(value, str) else "" for value in (before, after)]
    are_texts = all(isinstance(value, str | None) for value in (before, after))
    is_long = are_texts and any(len(text) > _LONG or "\n" in text for text in texts)
    old, new = (text.splitlines() for text in texts)
    diff = "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm="")) if is_long else ""
    return FieldChange(name, before, after, diff)


def _store(agent: Agent, number: int, configuration: dict[str, Any], note: str) -> AgentVersion:
    return AgentVersion.objects.create(
        agent=agent,
        number=number,
        configuration=configuration,
        note=note[:300],
        actor=context.actor.get(),
        created_at=timezone.now(),
    )


def _name_of(related: models.Model) -> str:
    return str(getattr(related, _name_field(type(related))))


def _name_field(model: type[models.Model]) -> str:
    own = {field.name for field in model._meta.concrete_fields}
    return next((name for name in _NAME_FIELDS if name in own), "pk")


def _is_json(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | list | dict | None)
