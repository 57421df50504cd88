"""Frozen data of the rules that decide what agents and sessions may do. Pure."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Budgets:
    """Limits of an agent within any 60 minutes; None for no limit. cost_per_hour: in the unit of provider prices."""

    actions_per_hour: int | None = None
    cost_per_hour: float | None = None


@dataclass(frozen=True)
class SessionPolicy:
    """Restrictions by a session, and by the message being answered. They never permit anything.

    denied: patterns.
    tools, mcp_servers: names that the message allows, or None for all.
    is_supervised: an agent with full autonomy asks as a supervised one.
    """

    is_readonly: bool = False
    is_supervised: bool = False
    denied: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    mcp_servers: tuple[str, ...] | None = None


@dataclass(frozen=True)
class AgentPolicy:
    """Rules of an agent.

    autonomy: readonly | supervised | full.
    tools, mcp_servers: names that are enabled, or None for all.
    agent_id: public id, by which tool sources list the agent's own tools.
    allowed (empty: everything), denied, always_ask, auto_approve: patterns, see `patterns`.
    allowed_hosts (empty: every host), denied_hosts: `example.com`, `*.example.com`, with or without a port.
    workspace: folder in which path arguments are resolved.
    egress_servers: MCP servers that get data of a run that has read from outside, without approval.
    needs_two: two people must allow each call of high risk, whatever else allows it.
    within: policy of the parent agent, which this policy can only narrow.
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
    needs_two: bool = False
    mcp_servers: tuple[str, ...] | None = None
    egress_servers: tuple[str, ...] = ()

    def permitting(self, names: tuple[str, ...]) -> "AgentPolicy":
        """Return the policy with these tools among those that it lists, which its denials still refuse.

        names: of tools that the sender of the message brings along.
        """
        tools = None if self.tools is None else (*self.tools, *names)
        return replace(self, tools=tools, allowed=(*self.allowed, *names) if self.allowed else ())
