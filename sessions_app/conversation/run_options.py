"""The options and restrictions of the run that answers a message, stored with the run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User

from agents_app.types import RunOptions
from sessions_app.approvals import permissions
from sessions_app.models import Session


def granted(options: RunOptions, owner: User | None, session: Session) -> RunOptions:
    """Return the options that a message's run gets.

    owner: the user the message acts for. The agent must have each tool that the message lists, unless the owner may
    change the agent: they could give it the tool anyway.
    """
    may_widen = options.chooses_tools and owner is not None and permissions.may_change(owner, session.agent)
    return replace(options, may_widen=may_widen)


def restrictions(session: Session, account: Mapping[str, Any], denied_tools: Sequence[str]) -> dict[str, Any]:
    """Return the policy of a session's run: what the session, the channel account and the message forbid any agent.

    account: the configuration of the channel account, empty without one. denied_tools: patterns, of the message.
    """
    own = session.policy
    denied = [*own.get("deniedTools", ()), *(account.get("denied_tools") or ()), *denied_tools]
    policy = {"readonly": bool(own.get("readonly") or account.get("readonly")), "deniedTools": denied}
    return {name: value for name, value in policy.items() if value}
