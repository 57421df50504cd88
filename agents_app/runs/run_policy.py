"""The limits of runs and the policies of their tool calls, from the rows of agents and runs. Reads only."""

from django.conf import settings

from agents_app.models import Agent, Run
from agents_app.types import Limits, RunOptions
from tools_app import conf
from tools_app.policy import scope
from tools_app.policy.rules import AgentPolicy, Budgets, SessionPolicy
from tools_app.policy.scope import INHERIT, Scope, ScopeMode

NO_OPTIONS = RunOptions()


def model_of(run: Run) -> str:
    """Return the model of the run: that of its message, of the agent, or of the provider."""
    return RunOptions.from_dict(run.options).model or run.agent.model_id or run.agent.provider.default_model


def limits_of(run: Run) -> Limits:
    agent, rounds = run.agent, RunOptions.from_dict(run.options).max_tool_rounds
    return Limits(
        tool_rounds=agent.max_tool_rounds if rounds is None else min(rounds, agent.max_tool_rounds),
        active_seconds=agent.max_active_seconds,
        call_seconds=agent.max_call_seconds,
        idle_seconds=agent.max_idle_seconds,
        tries=agent.max_tries,
        retry_first_seconds=agent.retry_first_seconds,
        retry_max_seconds=agent.retry_max_seconds,
        context_tokens=agent.max_context_tokens,
    )


def policy_of(run: Run) -> AgentPolicy:
    """Return the agent's policy for this run. `session_policy_of` restricts it further."""
    options = RunOptions.from_dict(run.options)
    return policy_of_agent(run.agent, options if options.may_widen else NO_OPTIONS)


def policy_of_agent(agent: Agent, options: RunOptions = NO_OPTIONS) -> AgentPolicy:
    """Return an agent's policy by its current settings. options: of a sender who may configure the agent."""
    budgets = agent.budgets
    return AgentPolicy(
        autonomy=agent.autonomy,
        tools=tools_of(agent, call=options.tools),
        mcp_servers=mcp_servers_of(agent, call=options.mcp_servers),
        agent_id=agent.agent_id,
        allowed=tuple(agent.allowed_tools),
        denied=tuple(agent.denied_tools),
        always_ask=tuple(agent.always_ask),
        auto_approve=tuple(agent.auto_approve),
        allowed_hosts=tuple(agent.allowed_hosts),
        denied_hosts=tuple(agent.denied_hosts),
        workspace=str(conf.workspace_folder(agent.agent_id)),
        budgets=Budgets(budgets.get("actionsPerHour"), budgets.get("costPerHour")),
        needs_two=agent.needs_two_approvers,
    )


def tools_of(agent: Agent, *, call: Scope = INHERIT, network: Scope = INHERIT) -> tuple[str, ...] | None:
    """Return the names of the agent's tools; None for all."""
    own, general = scope.of_nullable(agent.enabled_tools), scope.of_setting(settings.KOMAND_AGENT_TOOLS)
    return scope.resolve(call, own, network, general)


def mcp_servers_of(agent: Agent, *, call: Scope = INHERIT, network: Scope = INHERIT) -> tuple[str, ...] | None:
    """Return the names of the MCP servers whose tools the agent has; None for all."""
    own = Scope(ScopeMode(agent.mcp_servers_mode), tuple(agent.mcp_servers))
    return scope.resolve(call, own, network, scope.of_setting(settings.KOMAND_AGENT_MCP_SERVERS))


def session_policy_of(run: Run) -> SessionPolicy:
    """Return what the session and the channel account forbade when the message came, and the message itself."""
    stored, options = run.session_policy, RunOptions.from_dict(run.options)
    return SessionPolicy(
        is_readonly=bool(stored.get("readonly")),
        denied=tuple(stored.get("deniedTools", ())),
        tools=scope.narrowed(scope.resolve(options.tools), stored.get("tools")),
        mcp_servers=scope.resolve(options.mcp_servers),
    )
