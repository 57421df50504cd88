"""Tool calls without rows: checked, authorized and run in this process, for robots.

The same checks, rules and screening as for executions that are stored. Reads rows of agents, grants, budgets and the
emergency stop; writes audit entries alone.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connections, transaction
from django.utils import timezone

from audit_app import services as audit
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from tools_app import catalogue, conf, schema, selectors
from tools_app.executions import runner
from tools_app.executions.approvals import ApprovalPrompt
from tools_app.executions.planner import StepContext, new_row, plan_call, specs_for
from tools_app.executions.runner import Outcome
from tools_app.models import ToolExecution
from tools_app.policy import taint
from tools_app.policy.authorization import Gate
from tools_app.policy.decide import OPEN_SESSION, refuse_tool
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy, SessionPolicy
from tools_app.policy.taint import Taint
from tools_app.types import (
    AnyTool,
    AsksPerson,
    AsyncTool,
    ExecutionStatus,
    ExecutionView,
    HumanTool,
    Resumed,
    Tool,
    ToolCall,
    ToolContext,
    ToolSpec,
)
from tools_app.types.questions import Question

_HOUR = 3600.0


@dataclass
class Readings:
    """The readings and calls of a conversation without rows, on which the policy of its next calls depends.

    is_suspect: something read looks like an injection, and the guard escalates.
    letters: letters that choices without approval may have carried since the person's last message.
    charged: times of the calls that count against the budgets, by execution.
    """

    origins: list[str] = field(default_factory=list)
    own_texts: list[str] = field(default_factory=list)
    is_suspect: bool = False
    letters: int = 0
    charged: dict[UUID, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedCall:
    """A planned call. asks, questions: what a person has to decide or answer first."""

    view: ExecutionView
    asks: ApprovalPrompt | None = None
    questions: tuple[Question, ...] = ()


class _Gate(Gate):
    """A gate for a conversation without rows."""

    def __init__(self, toolbox: "Toolbox") -> None:
        self._readings = toolbox.readings
        super().__init__(
            toolbox.policy,
            toolbox.session_policy,
            actor=toolbox.actor,
            run_id=toolbox.run_id,
            session_id=toolbox.session_id,
        )
        self._is_suspect = self._readings.is_suspect
        earliest = time.monotonic() - _HOUR
        for _ in [at for at in self._readings.charged.values() if at > earliest]:
            for budget in self._budgets:
                budget.take()

    @cached_property
    def _origins(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._readings.origins))

    def _taint_of(self, tool: AnyTool, arguments: dict[str, Any]) -> Taint | None:
        """Return the taint. No link of a page is followed without approval: the texts that were read are not kept."""
        egress = taint.find_egress(PolicyCall(tool.spec, arguments))
        if egress is None or taint.is_allowed(egress, self.agent_policy) or not self._origins:
            return None
        named = frozenset[str]().union(*map(taint.named_urls, self._readings.own_texts))
        return Taint(self._origins, named, letters=self._readings.letters)

    def _count_choice(self, tool: AnyTool, arguments: dict[str, Any]) -> None:
        self._readings.letters += taint.count_letters(PolicyCall(tool.spec, arguments))


class Toolbox:
    """The tools of one conversation without rows: those registered that its policy permits, and local ones.

    policy: its `tools` must contain the names of local tools, if it restricts them.
    """

    def __init__(
        self,
        policy: AgentPolicy,
        readings: Readings,
        *,
        session_policy: SessionPolicy = OPEN_SESSION,
        local: Sequence[AnyTool] = (),
        actor: str,
        session_id: UUID,
    ) -> None:
        self.policy, self.session_policy, self.readings, self.actor = policy, session_policy, readings, actor
        self.session_id, self.run_id = session_id, new_id()
        self._local = {tool.spec.name: tool for tool in local}
        self._rows: dict[UUID, ToolExecution] = {}

    def list_specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools to offer to the model. Reads rows."""
        permitted = specs_for(self.policy, self.session_policy)
        registered = [spec for spec in permitted if self._find(spec.name) and spec.name not in self._local]
        limit = conf.max_timeout_seconds()
        local = [
            schema.advertised(tool.spec, max_timeout_seconds=limit)
            for tool in self._local.values()
            if refuse_tool(tool.spec, self.policy, self.session_policy) is None
        ]
        return (*registered, *local)

    def plan(self, calls: Sequence[ToolCall], step: int) -> tuple[PlannedCall, ...]:
        """Check and authorize the calls of one step. Reads rows, and audits the calls of registered tools."""
        context = StepContext(self.run_id, self.session_id, "", self.policy.agent_id, self.actor, step, "", "")
        with transaction.atomic():
            gate = _Gate(self)
            return tuple(self._plan(index, call, gate, context) for index, call in enumerate(calls))

    def _plan(self, index: int, call: ToolCall, gate: Gate, context: StepContext) -> PlannedCall:
        plan = plan_call(call, self._find(call.name), gate)
        row = new_row(index, call, plan, context)
        row.receipt = ""  # no row, so nothing to verify it with
        self._rows[row.id] = row
        if plan.is_charged:
            self.readings.charged[row.id] = time.monotonic()
        if call.name not in self._local:
            details = {"tool": row.tool, "decision": row.decision}
            audit.record("RobotToolCall", actor=self.actor, agent_id=self.policy.agent_id, details=details)
        return PlannedCall(selectors.view(row), plan.asks, () if plan.error else plan.questions)

    def deny(self, call: PlannedCall, note: str) -> ExecutionView:
        """Return the call as denied by a person, with a text for the model. It no longer counts against the budgets."""
        self.readings.charged.pop(call.view.id, None)
        return self._ended(call, Outcome(ExecutionStatus.FAILED, error=note), None)

    def answer(self, call: PlannedCall, text: str) -> ExecutionView:
        """Return the call of questions with the person's answers, one a line."""
        row, tool = self._rows[call.view.id], self._find(call.view.tool)
        if not isinstance(tool, HumanTool):
            raise TypeError(f"{row.tool} does not ask a question")
        return self._ended(call, runner.completed(tool.answer_of(call.questions, text)), None)

    def replaced(self, call: PlannedCall, value: Any) -> ExecutionView:
        """Return the call with a JSON value in place of the result of its tool, which is not called."""
        return self._ended(call, runner.completed(value), None)

    async def run(self, call: PlannedCall) -> ExecutionView:
        """Run an authorized call and return it with its screened result."""
        row, started_at = self._rows[call.view.id], timezone.now()
        tool = await in_db(self._find, row.tool)
        if not isinstance(tool, Tool | AsyncTool):
            return self._ended(call, Outcome(ExecutionStatus.FAILED, error=f"{row.tool} is not available."), started_at)
        outcome = await _outcome_of(row, tool)
        row.origins = outcome.origins or row.origins
        return self._ended(call, outcome, started_at)

    def _ended(self, call: PlannedCall, outcome: Outcome, started_at: datetime | None) -> ExecutionView:
        row = self._rows.pop(call.view.id)
        row.status, row.output, row.error = outcome.status.value, outcome.output, outcome.error
        row.started_at, row.completed_at = started_at, timezone.now()
        if started_at:
            self.readings.origins += row.origins.splitlines()
        if outcome.warning and settings.KOMAND_INJECTION_GUARD == "escalate":
            self.readings.is_suspect = True
        return selectors.view(row)

    def _find(self, name: str) -> AnyTool | None:
        return self._local.get(name) or find_registered(name, self.policy.agent_id)


def find_registered(name: str, agent_id: str) -> AnyTool | None:
    """Return the registered tool of this name if it works without a stored run."""
    tool = catalogue.find_tool(name, agent_id)
    return None if tool is None or tool.needs_run else tool


async def _outcome_of(row: ToolExecution, tool: Tool | AsyncTool) -> Outcome:
    """Call a tool within its time limit."""
    context = runner.context_of(row)
    try:
        async with asyncio.timeout(row.timeout_seconds):
            if isinstance(tool, AsyncTool):
                value = await _without_person(tool, row.arguments, context)
            else:
                value = await in_thread(tool.run, row.arguments, context)
        return runner.completed_by(tool, value)
    except TimeoutError:
        return runner.timed_out(row)
    except Exception as error:  # a fault of the tool is a result for the model
        return runner.failed(row, error)


async def _without_person(tool: AsyncTool, arguments: dict[str, Any], context: ToolContext) -> Any:
    """Call an async tool; what it asks is cancelled at once. The tool limits how often it asks."""
    while True:
        try:
            return await tool.run(arguments, context)
        except AsksPerson as asks:
            context = replace(context, resumed=Resumed(asks.state, None))


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Await a coroutine function; run any other in a thread, where it may use the ORM."""
    if inspect.iscoroutinefunction(function):
        return await function(*args)

    def call() -> Any:
        try:
            return function(*args)
        finally:
            connections.close_all()

    return await asyncio.to_thread(call)
