"""The options of a robot."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents_app.providers.base import Provider
from agents_app.robots.robot_budget import Budget
from agents_app.robots.robot_bus import Bus, RobotMessage
from agents_app.robots.robot_hooks import Hook
from agents_app.robots.robot_memory import Memory
from agents_app.types.prices import PriceList
from tools_app.executions.in_process import PlannedCall
from tools_app.policy.rules import AgentPolicy
from tools_app.policy.scope import Scope
from tools_app.types import ExecutionView
from tools_app.types.questions import Question


@dataclass(kw_only=True)
class RobotOptions:
    """The options of a robot; None and empty: as its template, its agent or the installation has them, in this order.

    name: `robot` counts as not set, so that `robot_name` of the template applies.
    template: name of a prompt template.
    system_prompt: text that follows it.
    skills: templates in front of it.
    context: values of the template's parameters, or a function that returns them.
    tools, mcp: `inherit`, `none`, or exactly the listed names, functions and tools (mcp: names of MCP servers).
    agent: public id of a stored agent, whose model, prompt and limits apply where the robot has none, and whose policy
        encloses the robot's.
    provider: name of a model provider, or one.
    policy: rules for tool calls.
    actor: for whom they are made.
    token_budget, cost_budget: for all runs of the robot and its copies.
    bus: on which it gets messages for `on_message`.
    on_content, on_reasoning: get pieces of text as they come; plain functions, on the event loop.
    on_tool_call, on_tool_result: get each call, before and after it is made.
    on_approval: returns whether a call that needs approval is allowed.
    on_question: returns the user's answer.
    """

    name: str = "robot"
    description: str = ""
    template: str = ""
    system_prompt: str = ""
    skills: Sequence[str] = ()
    context: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    tools: str | Scope | Collection[Any] = "inherit"
    mcp: str | Scope | Collection[str] = "inherit"
    agent: str = ""
    provider: str | Provider = ""
    model: str = ""
    prices: PriceList | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: Sequence[str] | None = None
    output_schema: dict[str, Any] | None = None
    max_tool_rounds: int | None = None
    max_active_seconds: float | None = None
    max_call_seconds: float | None = None
    max_idle_seconds: float | None = None
    max_tries: int | None = None
    max_context_tokens: int | None = None
    token_budget: int | None = None
    cost_budget: float | None = None
    policy: AgentPolicy | None = None
    actor: str = "system"
    memory: Memory = field(default_factory=Memory)
    bus: Bus | None = None
    hooks: Sequence[Hook] = ()
    on_content: Callable[[str], None] | None = None
    on_reasoning: Callable[[str], None] | None = None
    on_tool_call: Callable[[ExecutionView], Any] | None = None
    on_tool_result: Callable[[ExecutionView], Any] | None = None
    on_approval: Callable[[PlannedCall], Any] | None = None
    on_question: Callable[[Question], Any] | None = None
    on_message: Callable[[RobotMessage], Any] | None = None

    @property
    def budget(self) -> Budget:
        return Budget(self.token_budget, self.cost_budget)
