"""Installs skills for agents. An agent's `enabled_skill_ids` is the list of its installed skills."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents_app.configuration.agent_versions import record_version
from agents_app.models import Agent
from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.kernel.rules import check_row
from tools_app.skills import registry
from tools_app.skills.registry import InstallView


def install_skill(
    agent: Agent, skill_id: str, *, version: str = "", granted: Sequence[Any] | None = None, owner_id: int | None
) -> InstallView:
    """Install a skill with `registry.install`, which documents the arguments and errors. Owns its transaction."""
    with transaction.atomic():
        installed = registry.install(agent.agent_id, skill_id, version=version, granted=granted, owner_id=owner_id)
        _store_skill_ids(agent)
        record_version(agent)
        return installed


def uninstall_skill(agent: Agent, skill_id: str) -> None:
    """Uninstall a skill. Owns its transaction. Raises NotFound."""
    with transaction.atomic():
        registry.uninstall(agent.agent_id, skill_id)
        _store_skill_ids(agent)
        record_version(agent)


def set_skills(agent: Agent, skill_ids: Sequence[str], *, owner_id: int | None) -> None:
    """Make these the agent's only skills. Owns its transaction.

    Missing skills are installed in the newest version, with all permissions that they require; installed ones stay as
    they are. Raises InvalidInput (unknown_skill).
    """
    wanted = Agent(enabled_skill_ids=skill_ids)
    check_row(wanted, fields=["enabled_skill_ids"])
    with transaction.atomic():
        present = {installed.skill_id for installed in registry.list_installs(agent.agent_id)}
        for skill_id in sorted(present - set(wanted.enabled_skill_ids)):
            registry.uninstall(agent.agent_id, skill_id)
        for skill_id in wanted.enabled_skill_ids:
            if skill_id not in present:
                _install(agent, skill_id, owner_id)
        _store_skill_ids(agent)


def _install(agent: Agent, skill_id: str, owner_id: int | None) -> None:
    try:
        registry.install(agent.agent_id, skill_id, owner_id=owner_id)
    except NotFound as error:
        raise InvalidInput(error.message, code=error.code) from None


def _store_skill_ids(agent: Agent) -> None:
    present = [installed.skill_id for installed in registry.list_installs(agent.agent_id)]
    if present != agent.enabled_skill_ids:
        agent.enabled_skill_ids, agent.updated_at = present, timezone.now()
        Agent.objects.filter(pk=agent.pk).update(enabled_skill_ids=present, updated_at=agent.updated_at)
