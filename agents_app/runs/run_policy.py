"""The limits of runs and the policies of their tool calls, from the rows of agents and runs. Reads only."""

from typing import Any
from uuid import UUID

from django.conf import settings

from agents_app import hot_queries
from agents_app.configuration.agent_versions import use_version
from agents_app.models import Agent, ModelProvider, Run
from agents_app.types import Limits, RunOptions
from agents_app.types.child_runs import title_of
from agents_app.types.run_cost import Fallback
from tools_app import conf
from tools_app import services as tools
from tools_app.policy import scope
from tools_app.policy.rules import AgentPolicy, Budgets, SessionPolicy
from tools_app.policy.scope import INHERIT, Scope, ScopeMode
from tools_app.types import ClientTool
from tools_app.types.questions import ASK_USER

NO_OPTIONS = RunOptions()


def fallback_of(run: Run) -> Fallback | None:
    """Return the entry of the fallback chain that the run uses; None for the agent's own model."""
    return Fallback(**run.fallback) if run.fallback else None


def next_fallback(run: Run, *, failed: str, reason: str) -> Fallback | None:
    """Return the entry of the agent's chain that follows the one in use; None after the last.

    failed, reason: see `Fallback`.
    """
    used = fallback_of(run)
    place = used.position if used else 0
    following = run.agent.fallbacks[place : place + 1]
    return Fallback(place + 1, following[0]["provider"], following[0]["model"], failed, reason) if following else None


def provider_of(run: Run) -> ModelProvider:
    """Return the provider that the run uses; an unsaved placeholder if that of the fallback was deleted."""
    fallback = fallback_of(run)
    if fallback is None:
        return run.agent.provider
    found = ModelProvider.objects.filter(name=fallback.provider).first()
    return found or ModelProvider(name=fallback.provider)


def model_of(run: Run, provider: ModelProvider) -> str:
    """Return the model of the run: of its fallback, else of its message or the agent; else that of the provider."""
    fallback = fallback_of(run)
    chosen = fallback.model if fallback else RunOptions.from_dict(run.options).model or run.agent.model_id
    return chosen or provider.default_model


def limits_of(run: Run) -> Limits:
    agent, options = run.agent, RunOptions.from_dict(run.options)
    rounds = options.max_tool_rounds
    return Limits(
        tool_rounds=agent.max_tool_rounds if rounds is None else min(rounds, agent.max_tool_rounds),
        active_seconds=max(agent.max_active_seconds, run.child_spec.deadline_seconds if run.parent_id else 0),
        call_seconds=agent.max_call_seconds,
        idle_seconds=agent.max_idle_seconds,
        tries=agent.max_tries,
        retry_first_seconds=agent.retry_first_seconds,
        retry_max_seconds=agent.retry_max_seconds,
        context_tokens=agent.max_context_tokens,
        output_retries=agent.output_retries,
        answer_tokens=options.max_output_tokens or Limits.answer_tokens,
        compact_percent=settings.KOMAND_COMPACT_AT_PERCENT,
        compact_turns=settings.KOMAND_COMPACT_AT_TURNS,
    )


def policy_of(run: Run) -> AgentPolicy:
    """Return the agent's policy for this run. `session_policy_of` restricts it further.

    That of a child run is narrowed by its parent's, unless that is a network which a user has started: its tasks use
    agents that the user may use, and it has no rights of its own. A run that asks a person may do that alone, whatever
    its agent may do: the author of the network asks.
    """
    return _policy_of(run.agent, run.options, run.parent_id)


def _policy_of(agent: Agent, stored: dict[str, Any], parent_id: UUID | None) -> AgentPolicy:
    """Return the policy of a run.

    agent: in the version that the run uses.
    stored: options of the run.
    """
    options = RunOptions.from_dict(stored)
    if options.question:
        return AgentPolicy(agent_id=agent.agent_id, tools=(ASK_USER,))
    own = policy_of_agent(agent, options if options.may_widen else NO_OPTIONS)
    if parent_id is None:
        return own.permitting(client_tool_names(options)) if options.client_tools else own
    [(above, agent_id, above_id)] = hot_queries.GET_LAUNCHER.rows(run_id=parent_id)
    if above_id is None and above.get("network"):
        return own
    is_same = agent_id == agent.pk and above.get("agent_version") == stored.get("agent_version")
    agent_above = agent if is_same else use_version(hot_queries.GET_RUN.fetch(run_id=parent_id)[0]).agent
    return tools.narrow(_policy_of(agent_above, above, above_id), to=own)


def client_tools_of(run: Run) -> tuple[ClientTool, ...]:
    """Return the tools of the client that sent the run's message."""
    return tuple(ClientTool(**tool) for tool in run.options.get("client_tools") or ())


def client_tool_names(options: RunOptions) -> tuple[str, ...]:
    return tuple(tool["name"] for tool in options.client_tools or ())


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
        egress_servers=tuple(agent.egress_servers),
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
    if options.question:  # its tool is no choice of the message
        return SessionPolicy(denied=tuple(stored.get("deniedTools", ())))
    return SessionPolicy(
        is_readonly=bool(stored.get("readonly")),
        is_supervised=bool(stored.get("supervised")),
        denied=tuple(stored.get("deniedTools", ())),
        tools=_with_names(
            scope.narrowed(scope.resolve(options.tools), stored.get("tools")), client_tool_names(options)
        ),
        mcp_servers=scope.narrowed(scope.resolve(options.mcp_servers), stored.get("mcpServers")),
    )


def context_of(run: Run, step: int, *, on_done: tuple[str, str]) -> tools.StepContext:
    """Return the context of a step's tool calls. on_done: task that continues the run after them, and its queue."""
    return tools.StepContext(
        run_id=run.id,
        session_id=run.conversation_id,
        session_key=run.session_key,
        agent_id=run.agent.agent_id,
        actor=run.actor,
        step=step,
        on_done=on_done[0],
        on_done_queue=on_done[1],
        parent_run_id=run.parent_id,
        workstream=run.workstream,
        asker=title_of(run.child_spec.path) if run.parent_id else "",
        answer_seconds=(run.options.get("question") or {}).get("timeout"),
    )


def _with_names(permitted: tuple[str, ...] | None, names: tuple[str, ...]) -> tuple[str, ...] | None:
    return None if permitted is None else (*permitted, *names)


def restrictions_of_children(run: Run) -> dict[str, Any]:
    """Return the `session_policy` of the run's child runs: its own, with the names that its message allows."""
    allowed = session_policy_of(run)
    scopes = {"tools": allowed.tools, "mcpServers": allowed.mcp_servers}
    return {**run.session_policy, **{name: [*names] for name, names in scopes.items() if names is not None}}
