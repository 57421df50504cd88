"""The options and restrictions of the run that answers a message, stored with the run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User

from agents_app.configuration.agent_access import check_version, may_change
from agents_app.configuration.agent_versions import DRAFT, find_draft
from agents_app.types import RunOptions
from audit_app.kernel.errors import Forbidden
from sessions_app.models import ChannelAccount, Session

TRIES_DRAFT = "draft_of"  # key of Session.metadata: primary key of the agent whose draft the session tries


def granted(options: RunOptions, owner: User | None, session: Session) -> RunOptions:
    """Return the options that a message's run gets.

    owner: the user the message acts for. The agent must have each tool that the message lists, unless the owner may
    change the agent: they could give it the tool anyway. Raises what `agent_access.check_version` raises.
    """
    may_widen = options.chooses_tools and owner is not None and may_change(owner, session.agent)
    return replace(options, may_widen=may_widen, agent_version=_version(options, owner, session))


def _version(options: RunOptions, owner: User | None, session: Session) -> int | None:
    """Return the version of the agent that the run uses: of the message, else the draft in a session that tries it."""
    number = options.agent_version
    if number is None:
        tries_draft = session.metadata.get(TRIES_DRAFT) == str(session.agent.pk) and find_draft(session.agent)
        number = DRAFT if tries_draft else None
    if number is not None:
        if owner is None:
            raise Forbidden("A channel sender cannot choose a version of the agent.", code="version_not_allowed")
        check_version(owner, session.agent, number)
    return number


def restrictions(session: Session, account: ChannelAccount | None, denied_tools: Sequence[str]) -> dict[str, Any]:
    """Return the policy of a session's run: what the session, the channel account and the message forbid any agent.

    account: the channel account of the message, None without one.
    denied_tools: patterns, of the message.
    """
    own, config = session.policy, account.config if account else {}
    policy = {
        "readonly": bool(own.get("readonly") or config.get("readonly")),
        "supervised": bool(own.get("supervised")),
        "deniedTools": [*own.get("deniedTools", ()), *(config.get("denied_tools") or ()), *denied_tools],
    }
    stored = {name: value for name, value in policy.items() if value}
    if account and (tools := account.allowed_tools()) is not None:
        stored["tools"] = tools
    return stored
