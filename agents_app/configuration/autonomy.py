"""The rights that it takes to let an agent act without approval, the same in the admin and over REST."""

from collections.abc import Collection, Mapping
from typing import Any

from agents_app.rights import GRANT_AUTONOMY
from audit_app.rights import Right
from tools_app.rights import ALLOW_ALWAYS

_FULL = "full"


def stored_autonomy(agent: Any) -> dict[str, Any]:
    """Return the arguments of `needed_rights` for an agent."""
    return {"autonomy": agent.autonomy, "approved": agent.auto_approve, "needs_two": agent.needs_two_approvers}


def needed_rights(
    fields: Mapping[str, Any], *, autonomy: str = "", approved: Collection[str] = (), needs_two: bool = False
) -> tuple[Right, ...]:
    """Return the rights that a user needs to set these fields of an agent.

    fields: new values by column, those that stay the same may be missing.
    autonomy, approved: the stored `autonomy` and `auto_approve` of the agent, empty for a new one.
    needs_two: its stored `needs_two_approvers`.
    """
    drops_second = needs_two and not fields.get("needs_two_approvers", True)
    grants_autonomy = fields.get("autonomy") == _FULL != autonomy or drops_second
    allows_calls = bool(set(fields.get("auto_approve", ())) - set(approved))
    return (GRANT_AUTONOMY,) * grants_autonomy + (ALLOW_ALWAYS,) * allows_calls
