"""Create, change, publish and retire agents."""

from collections.abc import Collection, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from agents_app.configuration import agent_access, agent_skills, agent_versions, prompt_templates
from agents_app.configuration.fallbacks import check_fallbacks
from agents_app.models import Agent, AgentVersion, ModelProvider
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, InvalidInput
from audit_app.kernel.rules import check_row
from tools_app.skills import registry

DEFAULT_AGENT = "default"


def _check_skills(agent: Agent) -> None:
    known = set(registry.known_ids(agent.enabled_skill_ids))
    if unknown := [skill_id for skill_id in agent.enabled_skill_ids if skill_id not in known]:
        raise InvalidInput(f"There is no skill {unknown[0]!r}.", code="unknown_skill")


_REFERENCES = (
    (("enabled_skill_ids",), _check_skills),
    (("fallbacks", "provider", "model_id"), check_fallbacks),
    (("template", "template_parameters"), prompt_templates.check_agent),
)


def create_agent(*, agent_id: str, name: str, provider: str = "", owner_id: int | None = None, **fields: Any) -> Agent:
    """Create an agent. Owns its transaction.

    provider: public name of the provider; empty for the default agent's.
    fields: columns of Agent, and `sharing`. The skills in `enabled_skill_ids` use the owner's credentials.

    Raises InvalidInput (unknown_provider, repeated_model, unknown_template, invalid_template, unknown_skill,
    unknown_user, unknown_group, reserved_id), Conflict (agent_exists; a retired agent keeps its id).
    """
    wanted, shared = fields.pop("enabled_skill_ids", []), fields.pop("sharing", None)
    agent = Agent(agent_id=agent_id, name=name, owner_id=owner_id, **fields)
    check_row(agent)
    source = _provider(provider) if provider else ModelProvider.objects.get(agents__agent_id=DEFAULT_AGENT)
    agent.provider = source
    _check_references(agent)
    try:
        with transaction.atomic():
            agent.save(force_insert=True)
            audit.record("AgentCreated", agent_id=agent_id, details={"name": name, "provider": source.name})
            agent_skills.set_skills(agent, wanted, owner_id=owner_id)
            if shared is not None:
                agent_access.share_agent(agent, shared)
            agent_versions.record_version(agent)
    except IntegrityError:
        raise Conflict(f"The agent {agent_id!r} already exists.", code="agent_exists") from None
    return agent


def update_agent(
    agent: Agent, *, provider: str = "", skills_of: int | None = None, note: str = "", **fields: Any
) -> Agent:
    """Change columns and `sharing` of an agent, and store its new version. Open runs use them from their next claim.

    skills_of: the user whose credentials newly installed skills use; None for the installation's.
    note: note of the version. Owns its transaction.

    Raises InvalidInput (unknown_provider, repeated_model, unknown_template, invalid_template, unknown_skill,
    unknown_user, unknown_group).
    """
    wanted, shared = fields.pop("enabled_skill_ids", None), fields.pop("sharing", None)
    if provider:
        fields["provider"] = _provider(provider)
    with transaction.atomic():
        if not agent.version:
            agent_versions.record_version(agent, agent_versions.BASELINE)
        for name, value in fields.items():
            setattr(agent, name, value)
        check_row(agent, fields=fields)
        _check_references(agent, fields)
        agent.save(update_fields=[*fields, "updated_at"])
        audit.record("AgentUpdated", agent_id=agent.agent_id, details={"fields": sorted(fields)})
        if wanted is not None:
            agent_skills.set_skills(agent, wanted, owner_id=skills_of)
        if shared is not None:
            agent_access.share_agent(agent, shared)
        agent_versions.record_version(agent, note)
    return agent


def apply_configuration(
    agent: Agent, configuration: Mapping[str, Any], *, skills_of: int | None = None, note: str = ""
) -> Agent:
    """Give an agent a whole stored configuration, as a new version. Owns its transaction.

    Raises what `update_agent` raises, and InvalidInput (unknown_name) for an object that no longer exists.
    """
    single, many = agent_versions.resolve(configuration)
    with transaction.atomic():
        for name, related in many.items():
            getattr(agent, name).set(related)
        return update_agent(agent, skills_of=skills_of, note=note, **single)


def save_draft(agent: Agent, changes: Mapping[str, Any]) -> AgentVersion:
    """Change fields of the draft with `agent_versions.save_draft`. Raises InvalidInput, also for an unknown provider.

    changes: as for `update_agent`.
    """
    if provider := changes.get("provider"):
        _provider(provider)
    return agent_versions.save_draft(agent, changes)


def publish_draft(agent: Agent, draft: AgentVersion, *, skills_of: int | None = None) -> Agent:
    """Make a draft, as its caller has checked it, the agent's configuration. One that was saved meanwhile stays."""
    with transaction.atomic():
        apply_configuration(agent, draft.configuration, skills_of=skills_of, note=draft.note or "Published the draft.")
        draft.delete()
    return agent


def roll_back(agent: Agent, version: AgentVersion, *, skills_of: int | None = None) -> Agent:
    """Make an earlier version the agent's configuration again, as a new version."""
    note = f"Rolled back to version {version.number}."
    return apply_configuration(agent, version.configuration, skills_of=skills_of, note=note)


def broken_references(agent: Agent, fields: Collection[str] | None = None) -> dict[str, InvalidInput]:
    """Return the errors of what an agent refers to, by field: skills, models of its fallback chain, its template.

    fields: those that change; None: all.
    """
    broken: dict[str, InvalidInput] = {}
    for names, check in _REFERENCES:
        if fields is None or not set(names).isdisjoint(fields):
            try:
                check(agent)
            except InvalidInput as error:
                broken[names[0]] = error
    return broken


def retire_agent(agent: Agent) -> None:
    """Retire an agent; its runs and sessions stay readable. Raises Conflict for the default agent."""
    if agent.agent_id == DEFAULT_AGENT:
        raise Conflict("The default agent answers every new session; it cannot be deleted.", code="default_agent")
    with transaction.atomic():
        Agent.objects.filter(pk=agent.pk, retired_at=None).update(retired_at=Now())
        audit.record("AgentRetired", agent_id=agent.agent_id)


def restore_agent(agent: Agent) -> bool:
    """Restore a retired agent. Return False if it was not retired."""
    with transaction.atomic():
        if not Agent.objects.filter(pk=agent.pk, retired_at__isnull=False).update(retired_at=None):
            return False
        audit.record("AgentRestored", agent_id=agent.agent_id)
        return True


def _check_references(agent: Agent, fields: Collection[str] | None = None) -> None:
    for error in broken_references(agent, fields).values():
        raise error


def _provider(name: str) -> ModelProvider:
    provider = ModelProvider.objects.filter(name=name, is_enabled=True).first()
    if provider is None:
        known = ", ".join(ModelProvider.objects.filter(is_enabled=True).values_list("name", flat=True))
        raise InvalidInput(f"There is no model provider {name!r}. Known: {known}.", code="unknown_provider")
    return provider
