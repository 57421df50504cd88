"""What an agent's row says about its runs: how far they may go, and what their tool calls may do. Writes nothing."""

from django.conf import settings

from agents_app.models import Agent, Run
from agents_app.types import Limits, RunOptions
from tools_app import conf
from tools_app.policy import scope
from tools_app.policy.rules import AgentPolicy, Budgets, SessionPolicy
from tools_app.policy.scope import INHERIT, Scope, ScopeMode

NOTHING_ASKED = RunOptions()


def limits_of(run: Run) -> Limits:
    """The limits of one message."""
    agent = run.agent
    return Limits(
        tool_rounds=agent.max_tool_rounds,
        active_seconds=agent.max_active_seconds,
        call_seconds=agent.max_call_seconds,
        idle_seconds=agent.max_idle_seconds,
        tries=agent.max_tries,
        retry_first_seconds=agent.retry_first_seconds,
        retry_max_seconds=agent.retry_max_seconds,
        context_tokens=agent.max_context_tokens,
    )


def policy_of(run: Run) -> AgentPolicy:
    """What the tool calls of this run may do, as far as its agent goes. What is taken away is `session_policy_of`."""
    asked = RunOptions.from_dict(run.options)
    return policy_of_agent(run.agent, asked if asked.may_widen else NOTHING_ASKED)


def policy_of_agent(agent: Agent, asked: RunOptions = NOTHING_ASKED) -> AgentPolicy:
    """What an agent may do as it is set up now. Its folder goes by its id, which never changes. asked: by somebody who
    might set it up."""
    budgets = agent.budgets
    return AgentPolicy(
        autonomy=agent.autonomy,
        tools=tools_of(agent, call=asked.tools),
        mcp_servers=mcp_servers_of(agent, call=asked.mcp_servers),
        agent_id=agent.agent_id,
        allowed=tuple(agent.allowed_tools),
        denied=tuple(agent.denied_tools),
        always_ask=tuple(agent.always_ask),
        auto_approve=tuple(agent.auto_approve),
        allowed_hosts=tuple(agent.allowed_hosts),
        denied_hosts=tuple(agent.denied_hosts),
        workspace=str(conf.workspace_folder(agent.agent_id)),
        budgets=Budgets(budgets.get("actionsPerHour"), budgets.get("costPerHour")),
    )


def tools_of(agent: Agent, *, call: Scope = INHERIT, network: Scope = INHERIT) -> tuple[str, ...] | None:
    """The tools it has, by name; None: every one."""
    own, general = scope.of_nullable(agent.enabled_tools), scope.of_setting(settings.KOMAND_AGENT_TOOLS)
    return scope.resolve(call, own, network, general)


def mcp_servers_of(agent: Agent, *, call: Scope = INHERIT, network: Scope = INHERIT) -> tuple[str, ...] | None:
    """The MCP servers whose tools it has; None: all of them."""
    own = Scope(ScopeMode(agent.mcp_servers_mode), tuple(agent.mcp_servers))
    return scope.resolve(call, own, network, scope.of_setting(settings.KOMAND_AGENT_MCP_SERVERS))


def session_policy_of(run: Run) -> SessionPolicy:
    """What the session took away when it accepted the run's message, and what the message itself does without."""
    kept, asked = run.session_policy, RunOptions.from_dict(run.options)
    return SessionPolicy(
        is_readonly=bool(kept.get("readonly")),
        denied=tuple(kept.get("deniedTools", ())),
        tools=scope.resolve(asked.tools),
        mcp_servers=scope.resolve(asked.mcp_servers),
    )
