"""Turns the calls that a model requested into execution rows: validated, authorized, stored, nudged. Runs no tool."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils import timezone

from audit_app.event_types import NewEvent
from audit_app.kernel.context import request_id
from tools_app import catalogue, conf, schema, selectors
from tools_app.executions import events, nudges, transitions
from tools_app.executions.approvals import ApprovalPrompt, request_approval
from tools_app.executions.user_input import request_input
from tools_app.models import ToolExecution
from tools_app.policy import taint
from tools_app.policy.authorization import Gate
from tools_app.policy.decide import OPEN_SESSION, Ask, Deny, refuse_tool
from tools_app.policy.patterns import PolicyCall
from tools_app.policy.rules import AgentPolicy, SessionPolicy
from tools_app.receipts import receipts
from tools_app.types import (
    AnyTool,
    AsyncTool,
    Effect,
    ExecutionStatus,
    ExecutionView,
    HumanTool,
    Question,
    Risk,
    ToolCall,
    ToolSpec,
)


@dataclass(frozen=True)
class StepContext:
    """The step of a run whose calls are planned. The fields are columns of the execution rows.

    on_done, on_done_queue: task to nudge with the run's id when its last open execution has ended, and its queue.
    """

    run_id: UUID
    session_id: UUID
    session_key: str
    agent_id: str
    actor: str
    step: int
    on_done: str
    on_done_queue: str


@dataclass(frozen=True)
class Planned:
    """Result of planning.

    executions: one per call, in the order of the calls.
    events: for the caller to emit, in this order.
    asks, questions: whether some executions wait for an approval, or for an answer.
    """

    executions: tuple[ExecutionView, ...]
    events: list[NewEvent]
    asks: bool
    questions: bool = False


@dataclass(frozen=True)
class _Plan:
    """Plan of one call, which runs at once unless `error`, `asks` or `question` is set.

    error: why it will not be run, for the model.
    asks: the approval request to make first.
    question: the question that a user has to answer.
    is_charged: whether it counts against the agent's budget.
    origins: of what its result brings into the run, one a line.
    """

    arguments: dict[str, Any]
    effect: Effect
    risk: Risk
    timeout_seconds: int
    decision: str
    error: str = ""
    asks: ApprovalPrompt | None = None
    runs_in_loop: bool = False
    question: Question | None = None
    is_charged: bool = False
    origins: str = ""


def specs_for(agent_policy: AgentPolicy, session_policy: SessionPolicy = OPEN_SESSION) -> tuple[ToolSpec, ...]:
    """Return the tools to offer to the agent's model: those that its policy does not deny outright."""
    limit = conf.max_timeout_seconds()
    return tuple(
        # Questions to users have no time limit of their own to request.
        schema.advertised(tool.spec, max_timeout_seconds=None if isinstance(tool, HumanTool) else limit)
        for tool in catalogue.list_tools(agent_policy.agent_id)
        if refuse_tool(tool.spec, agent_policy, session_policy) is None
    )


def plan_executions(
    calls: Sequence[ToolCall],
    context: StepContext,
    *,
    policy: AgentPolicy,
    session_policy: SessionPolicy = OPEN_SESSION,
    text_length: int,
) -> Planned:
    """Store one execution per call of a step, and nudge a worker for each that may run.

    An invalid call (unknown tool, malformed arguments, denied by the policy) is stored as Failed, with an error that
    the model can act on. A call that needs approval stays pending, with an approval request; a question stays pending,
    with an input request.
    text_length: code points of the step's text.
    Joins the caller's transaction. The caller emits the events, and continues the run at once if no execution is open.
    Raises IntegrityError if the step was planned before.
    """
    gate = Gate(policy, session_policy, actor=context.actor, run_id=context.run_id, session_id=context.session_id)
    plans = [_plan(call, gate) for call in calls]
    rows = [_row(index, call, plan, context) for index, (call, plan) in enumerate(zip(calls, plans, strict=True))]
    ToolExecution.objects.bulk_create(rows)
    asked = {row.id: request_approval(row, plan.asks) for row, plan in zip(rows, plans, strict=True) if plan.asks}
    to_ask = ((row, plan.question) for row, plan in zip(rows, plans, strict=True) if plan.question and not plan.error)
    questions = {row.id: request_input(row, question) for row, question in to_ask}
    new_events: list[NewEvent] = []
    for row in rows:
        new_events.append(events.requested(row, text_length=text_length))
        if row.id in asked:
            new_events.append(events.approval_requested(row, asked[row.id]))
        elif row.id in questions:
            new_events.append(events.input_requested(row, questions[row.id]))
        elif row.status == ExecutionStatus.PENDING:
            nudges.nudge_worker(row)
        else:
            new_events.append(events.ended(row))
    return Planned(tuple(selectors.view(row) for row in rows), new_events, asks=bool(asked), questions=bool(questions))


def _row(index: int, call: ToolCall, plan: _Plan, context: StepContext) -> ToolExecution:
    now = timezone.now()
    if plan.error:
        initial: dict[str, Any] = {"status": ExecutionStatus.FAILED, "error": plan.error, "completed_at": now}
    elif plan.asks or plan.question:
        initial = {"status": ExecutionStatus.PENDING}  # nudged once it is approved or answered
    else:
        initial = {"status": ExecutionStatus.PENDING, "renudge_at": transitions.renudge_at(conf.RENUDGE_SECONDS)}
    row = ToolExecution(
        call_index=index,
        call_id=_clean(call.id, 200),
        tool=_clean(call.name, 120),
        arguments=plan.arguments,
        effect=plan.effect,
        risk=plan.risk,
        decision=plan.decision[:200],
        timeout_seconds=plan.timeout_seconds,
        runs_in_loop=plan.runs_in_loop,
        charged_at=now if plan.is_charged else None,
        origins=plan.origins,
        created_at=now,
        request_id=request_id.get(),
        **vars(context),
        **initial,
    )
    if plan.error:
        row.receipt = receipts.sign(row)
    return row


def _plan(call: ToolCall, gate: Gate) -> _Plan:
    tool = catalogue.find_tool(call.name, gate.agent_policy.agent_id)
    arguments: dict[str, Any] = {}
    try:
        arguments = schema.read_arguments(call.arguments, max_characters=conf.MAX_ARGUMENTS_CHARACTERS)
        if tool is None:
            return _unknown_tool(call.name, arguments, gate)
        default, most = tool.spec.timeout_seconds, conf.max_timeout_seconds()
        arguments, seconds = schema.take_timeout(arguments, default_seconds=default, max_seconds=most)
        schema.check_call(tool, arguments)
    except schema.ArgumentsError as problem:
        return _refused(tool.spec if tool else _NO_TOOL, arguments, "unfit arguments", str(problem))
    return _decided(tool, arguments, seconds, gate)


def _decided(tool: AnyTool, arguments: dict[str, Any], seconds: int, gate: Gate) -> _Plan:
    # A question needs no approval: it would only be another question.
    question = tool.question_of(arguments) if isinstance(tool, HumanTool) else None
    verdict = gate.decide(tool, arguments, is_question=question is not None)
    error = f"This call is not allowed: {verdict.reason} Do not repeat it." if isinstance(verdict, Deny) else ""
    asks = None
    if isinstance(verdict, Ask):
        use = tool.credentials_of(arguments, gate.actor)
        asks = ApprovalPrompt.of(verdict, gate.propose(tool, arguments), use)
    return _Plan(
        arguments,
        tool.effect_of(arguments),
        tool.risk_of(arguments),
        seconds,
        decision=f"{type(verdict).__name__.lower()}: {verdict.reason}",
        error=error,
        asks=asks,
        runs_in_loop=isinstance(tool, AsyncTool),
        question=question,
        is_charged=not error,
        origins="\n".join(taint.origins_of(PolicyCall(tool.spec, arguments))),
    )


_NO_TOOL = ToolSpec(name="", description="", parameters={})


def _unknown_tool(name: str, arguments: dict[str, Any], gate: Gate) -> _Plan:
    known = ", ".join(spec.name for spec in specs_for(gate.agent_policy, gate.session_policy)) or "none"
    error = f"There is no tool {_clean(name, 120)!r}. Available tools: {known}."
    return _refused(_NO_TOOL, arguments, "unknown tool", error)


def _refused(spec: ToolSpec, arguments: dict[str, Any], why: str, error: str) -> _Plan:
    return _Plan(arguments, spec.effect, spec.risk, spec.timeout_seconds, f"not decided: {why}", error)


def _clean(text: str, length: int) -> str:
    """Return a text chosen by the model as a column of that length can store it."""
    return text.replace("\0", "").encode(errors="replace").decode()[:length]
