"""The rights that it takes to set fields of an agent, the same in the admin and over REST."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser, User

from agents_app.models import Agent
from agents_app.rights import CHANGE_TEMPLATES, GRANT_AUTONOMY, VIEW_TEMPLATES
from audit_app.rights import Right, holds, require
from tools_app.rights import ALLOW_ALWAYS

_FULL = "full"


def require_rights(user: User | AnonymousUser, fields: Mapping[str, Any], agent: Agent | None = None) -> bool:
    """Check that the user may set these fields. Return whether that lets the agent act alone: it takes a fresh login.

    fields: new values by column, those that stay the same may be missing.
    agent: as it is stored; None for a new one.

    Raises MissingRight.
    """
    template = fields.get("template")
    if template and template != (agent.template if agent else ""):
        require_templates(user)  # the owner of an agent reads its prompt
    needed = _rights_of_autonomy(fields, agent or Agent(autonomy=""))
    for right in needed:
        require(user, right)
    return bool(needed)


def require_templates(user: User | AnonymousUser) -> None:
    """Raise MissingRight unless the user may see prompt templates."""
    if not may_view_templates(user):
        require(user, VIEW_TEMPLATES)


def may_view_templates(user: User | AnonymousUser) -> bool:
    """Return whether the user may see prompt templates, as those who may change them do."""
    return holds(user, CHANGE_TEMPLATES) or holds(user, VIEW_TEMPLATES)


def _rights_of_autonomy(fields: Mapping[str, Any], agent: Agent) -> tuple[Right, ...]:
    """Return the rights that it takes to let an agent act without approval, or with that of one person only."""
    drops_second = agent.needs_two_approvers and not fields.get("needs_two_approvers", True)
    grants_autonomy = fields.get("autonomy") == _FULL != agent.autonomy or drops_second
    allows_calls = bool(set(fields.get("auto_approve", ())) - set(agent.auto_approve))
    return (GRANT_AUTONOMY,) * grants_autonomy + (ALLOW_ALWAYS,) * allows_calls
