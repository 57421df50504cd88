"""What the run of a message is given: what its sender asks for, and what the session and others take away. Stored with
the run when the message is accepted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User

from agents_app.types import RunOptions
from sessions_app.approvals import permissions
from sessions_app.models import Session


def granted(options: RunOptions, owner: User | None, session: Session) -> RunOptions:
    """What a message asks of its run. owner: for whom it acts. Of the tools that it lists, the agent has to have each,
    unless that owner might set the agent up: they could give it more anyway."""
    may_widen = options.chooses_tools and owner is not None and permissions.may_change(owner, session.agent)
    return replace(options, may_widen=may_widen)


def taken_away(session: Session, account: Mapping[str, Any], denied_tools: Sequence[str]) -> dict[str, Any]:
    """What the session's owner, the channel account, and whoever sends the message take away from whichever agent
    answers there. account: its configuration, empty without one; denied_tools: patterns."""
    own = session.policy
    denied = [*own.get("deniedTools", ()), *(account.get("denied_tools") or ()), *denied_tools]
    taken = {"readonly": bool(own.get("readonly") or account.get("readonly")), "deniedTools": denied}
    return {name: value for name, value in taken.items() if value}
