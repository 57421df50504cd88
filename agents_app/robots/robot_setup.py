"""The configuration of one run of a robot, from the robot, its template, its agent and the installation. Reads only."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from django.conf import settings

from agents_app import selectors
from agents_app.configuration import prompt_templates
from agents_app.models import Agent, ModelProvider
from agents_app.prompt import template_sandbox
from agents_app.prompt.system_prompt import PromptPart
from agents_app.prompt.template_format import ModelSettings, Template
from agents_app.prompt.template_sandbox import Rendered
from agents_app.providers import registry
from agents_app.providers.base import Provider
from agents_app.robots import robot_budget
from agents_app.robots.failures import RobotError
from agents_app.robots.local_tools import FunctionTool, as_tool
from agents_app.robots.robot_options import RobotOptions
from agents_app.runs import run_policy
from agents_app.types import Limits, RunOptions
from agents_app.types.prices import PriceList
from audit_app.kernel.errors import NotFound
from tools_app import catalogue
from tools_app.executions.in_process import find_registered
from tools_app.models import McpServer
from tools_app.policy import scope
from tools_app.policy.rules import AgentPolicy
from tools_app.policy.scope import INHERIT, Scope, ScopeMode
from tools_app.types import AnyTool

# `inherit`, `none`, or a list of names; of tools, functions and tools too.
Names: TypeAlias = str | Scope | Collection[Any]


@dataclass(frozen=True)
class Levels:
    """The scopes of tools and MCP servers of the levels above and below a robot."""

    tools: Names = "inherit"
    mcp: Names = "inherit"
    network_tools: Scope = INHERIT
    network_mcp: Scope = INHERIT


@dataclass(frozen=True)
class Setup:
    """Everything that a run needs. is_own_provider: built for this run, which closes it."""

    name: str
    provider: Provider
    provider_name: str
    is_own_provider: bool
    model: str
    prices: PriceList
    policy: AgentPolicy
    local: tuple[AnyTool, ...]
    limits: Limits
    options: RunOptions
    template: tuple[PromptPart, ...]
    system_prompt: str
    agent: Agent | None = field(default=None, repr=False)


def prepare(options: RobotOptions, levels: Levels, given: Mapping[str, Any]) -> Setup:
    """Return the setup of a run. given: values for the template, over those of the robot.

    Raises RobotError, InvalidInput (unknown_template, invalid_template), NotFound (unknown_agent), ProviderError.
    """
    agent = selectors.get_agent(options.agent) if options.agent else None
    template, rendered = _prompt(options, agent, given)
    row = None if isinstance(options.provider, Provider) else _provider_row(options.provider, agent)
    own_model = options.model or rendered.settings.model or (agent.model_id if agent and row == agent.provider else "")
    model = own_model or (row.default_model if row else "")
    prices = options.prices or (selectors.price_list(row) if row else PriceList())
    robot_budget.check(options.budget, prices, model)
    own, local = split_tools(options.tools)
    name = options.name if options.name != "robot" else template.robot_name or options.name
    policy = _policy(options, levels, agent, template, _Tools(own, local, name))
    provider = options.provider if isinstance(options.provider, Provider) else registry.build(_known(row))
    return Setup(
        name=name,
        provider=provider,
        provider_name=row.name if row else provider.kind,
        is_own_provider=row is not None,
        model=model,
        prices=prices,
        policy=policy,
        local=local,
        limits=_limits(options, agent),
        options=_run_options(options, rendered.settings, agent),
        template=rendered.parts,
        system_prompt=options.system_prompt or ("" if options.template or agent is None else agent.system_prompt),
        agent=agent,
    )


def check_template(options: RobotOptions) -> None:
    """Check that the templates of a robot exist and can be rendered with its values. Values of a function come later.

    Raises InvalidInput (unknown_template, invalid_template).
    """
    if not callable(options.context):
        _prompt(options, None, {})
    else:
        template_sandbox.expand(_template_of(options, options.template), prompt_templates.get_template)


def split_tools(tools: Names) -> tuple[Scope, tuple[AnyTool, ...]]:
    """Return the scope of a robot's tools and the local ones among them. A list is exactly these."""
    if isinstance(tools, str | Scope):
        return as_scope(tools), ()
    local = tuple(as_tool(each) for each in tools if not isinstance(each, str))
    names = [each for each in tools if isinstance(each, str)] + [tool.spec.name for tool in local]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise RobotError(f"There are two tools {repeated[0]!r}.", code="unknown_tool")
    return as_scope(names), local  # type: ignore[return-value]  # the subclasses of BaseTool are AnyTool


def as_scope(names: Names) -> Scope:
    """Return the scope of `inherit`, `none` or names."""
    if isinstance(names, Scope):
        return names
    if isinstance(names, str):
        return Scope(ScopeMode(names))
    return scope.of_nullable([str(name) for name in names])


@dataclass(frozen=True)
class _Tools:
    own: Scope
    local: Sequence[AnyTool]
    robot: str


def _policy(
    options: RobotOptions, levels: Levels, agent: Agent | None, template: Template, tools: _Tools
) -> AgentPolicy:
    """Return the policy: that of the robot, within that of its agent."""
    names = scope.resolve(
        split_tools(levels.tools)[0],
        tools.own,
        scope.of_nullable(template.tools),
        levels.network_tools,
        scope.of_nullable(agent.enabled_tools) if agent else INHERIT,
        scope.of_setting(settings.KOMAND_AGENT_TOOLS),
    )
    local = {tool.spec.name for tool in tools.local}
    agent_id = agent.agent_id if agent else f"robot:{tools.robot}"
    for name in tools.own.names:
        if name not in local and find_registered(name, agent_id) is None:
            raise RobotError(f"There is no tool {name!r} that works without a stored run.", code="unknown_tool")
    if shadowed := [name for name in local if catalogue.find_tool(name, agent_id)]:
        raise RobotError(f"The tool {shadowed[0]!r} has the name of a registered one.", code="unknown_tool")
    _check_servers({*as_scope(levels.mcp).names, *as_scope(options.mcp).names})
    servers = scope.resolve(
        as_scope(levels.mcp),
        as_scope(options.mcp),
        scope.of_nullable(template.mcp),
        levels.network_mcp,
        Scope(ScopeMode(agent.mcp_servers_mode), tuple(agent.mcp_servers)) if agent else INHERIT,
        scope.of_setting(settings.KOMAND_AGENT_MCP_SERVERS),
    )
    within = run_policy.policy_of_agent(agent) if agent else None
    if within and within.tools is not None:
        within = replace(within, tools=(*within.tools, *local))
    base = options.policy or (
        AgentPolicy(autonomy=agent.autonomy, egress_servers=tuple(agent.egress_servers)) if agent else AgentPolicy()
    )
    workspace = base.workspace or (within.workspace if within else "")
    return replace(
        base, agent_id=agent_id, tools=names, mcp_servers=servers, within=base.within or within, workspace=workspace
    )


def _check_servers(names: Collection[str]) -> None:
    known = McpServer.objects.filter(name__in=names).values_list("name", flat=True) if names else ()
    if unknown := sorted(set(names) - set(known)):
        raise RobotError(f"There is no MCP server {unknown[0]!r}.", code="unknown_mcp_server")


def _prompt(options: RobotOptions, agent: Agent | None, given: Mapping[str, Any]) -> tuple[Template, Rendered]:
    reference, values = options.template, options.context
    values = {**(values() if callable(values) else values), **given}
    if agent and not reference and not options.system_prompt:
        reference, values = agent.template, {**agent.template_parameters, **values}
    template = _template_of(options, reference)
    known = template_sandbox.declared(template_sandbox.expand(template, prompt_templates.get_template))
    fitting = {name: value for name, value in values.items() if name in known}
    return template, template_sandbox.render(template, prompt_templates.get_template, fitting)


def _template_of(options: RobotOptions, reference: str) -> Template:
    template = prompt_templates.get_template(reference) if reference else Template("robot", "")
    return replace(template, skills=(*options.skills, *template.skills))


def _provider_row(name: Any, agent: Agent | None) -> ModelProvider:
    if name:
        row = ModelProvider.objects.filter(name=name).first()
    else:
        row = agent.provider if agent else ModelProvider.objects.filter(agents__agent_id="default").first()
    if row is None:
        known = (
            f"There is no model provider {name!r}." if name else "There is no default agent, whose model it would use."
        )
        raise RobotError(f"{known} Give the robot a `provider`.", code="unknown_provider")
    return row


def _known(row: ModelProvider | None) -> ModelProvider:
    if row is None:
        raise NotFound("There is no model provider.")
    return row


def _limits(options: RobotOptions, agent: Agent | None) -> Limits:
    """Return the limits: those of the robot, then of its agent, then the defaults."""
    names = {
        "tool_rounds": "max_tool_rounds",
        "active_seconds": "max_active_seconds",
        "call_seconds": "max_call_seconds",
        "idle_seconds": "max_idle_seconds",
        "tries": "max_tries",
        "context_tokens": "max_context_tokens",
    }
    found: dict[str, Any] = {}
    for limit, name in names.items():
        own = getattr(options, name)
        if own is not None or agent is not None:
            found[limit] = getattr(agent, name) if own is None else own
    return Limits(**found, answer_tokens=options.max_tokens or Limits.answer_tokens, compact_percent=0)


def _run_options(options: RobotOptions, template: ModelSettings, agent: Agent | None) -> RunOptions:
    names = ("top_p", "presence_penalty", "frequency_penalty", "stop")
    own = {name: value for name in names if (value := getattr(options, name)) is not None}
    return RunOptions(
        output_schema=agent.output_schema if options.output_schema is None and agent else options.output_schema,
        temperature=template.temperature if options.temperature is None else options.temperature,
        max_output_tokens=template.max_tokens if options.max_tokens is None else options.max_tokens,
        sampling={**template.sampling, **own} or None,
    )


def bind(local: Sequence[AnyTool], robot: Any) -> None:
    """Give functions that have a parameter `robot` their robot."""
    for tool in local:
        if isinstance(tool, FunctionTool):
            tool.robot = robot
