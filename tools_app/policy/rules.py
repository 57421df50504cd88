"""Frozen data of what agents and sessions may do: the rules that `policy` decides by. Pure: no ORM, no settings."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Budgets:
    """What an agent may use up in any 60 minutes; None: no limit. cost: in the unit of its provider's prices."""

    actions_per_hour: int | None = None
    cost_per_hour: float | None = None


@dataclass(frozen=True)
class SessionPolicy:
    """What a session, and the message that is answered, take away from whichever agent answers. They can give nothing.
    denied: patterns; tools, mcp_servers: names of those that the message is content with, or None for all."""

    is_readonly: bool = False
    denied: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    mcp_servers: tuple[str, ...] | None = None


@dataclass(frozen=True)
class AgentPolicy:
    """What an agent may do.

    autonomy: readonly | supervised | full; tools: names it has, or None for every tool; agent_id: its public id, which
    may have tools of its own. allowed (empty: everything), denied, always_ask, auto_approve: patterns, see `patterns`.
    allowed_hosts (empty: every host), denied_hosts: `example.com`, `*.example.com`, with or without a port.
    mcp_servers: names of those whose tools it has, or None for all. workspace: the folder that path arguments are
    resolved in; within: the policy of the agent it works for, which its own can only narrow.
    """

    autonomy: str = "supervised"
    tools: tuple[str, ...] | None = None
    agent_id: str = ""
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    always_ask: tuple[str, ...] = ()
    auto_approve: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    denied_hosts: tuple[str, ...] = ()
    workspace: str = ""
    budgets: Budgets = Budgets()
    within: "AgentPolicy | None" = None
    mcp_servers: tuple[str, ...] | None = None
