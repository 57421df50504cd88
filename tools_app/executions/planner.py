"""Turns the calls that a model requested into execution rows: validated, authorized, stored, nudged. Runs no tool."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from django.conf import settings
from django.utils import timezone

from audit_app.event_types import NewEvent
from audit_app.kernel.context import request_id
from tools_app import catalogue, conf, schema, selectors
from tools_app.executions import batches, events, nudges, transitions
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
    BatchTool,
    ClientTool,
    Effect,
    ExecutionStatus,
    ExecutionView,
    HumanTool,
    Risk,
    ToolCall,
    ToolSpec,
)
from tools_app.types.questions import Question


@dataclass(frozen=True)
class StepContext:
    """The step of a run whose calls are planned. The fields are columns of the execution rows.

    on_done, on_done_queue: task to nudge with the run's id when its last open execution has ended, and its queue.
    parent_run_id, workstream: of a child run.
    asker: name of the child run for people; no column.
    answer_seconds: time for the answers to questions, see `request_input`; no column.
    """

    run_id: UUID
    session_id: UUID
    session_key: str
    agent_id: str
    actor: str
    step: int
    on_done: str
    on_done_queue: str
    parent_run_id: UUID | None = None
    workstream: str = ""
    asker: str = ""
    answer_seconds: float | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns of the execution rows."""
        return {name: value for name, value in vars(self).items() if name not in ("asker", "answer_seconds")}


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
class CallPlan:
    """Plan of one call, which runs at once unless `error`, `asks`, `questions`, `items` or `is_returned` is set.

    error: why it will not be run, for the model.
    asks: the approval request to make first.
    questions: questions that a user has to answer.
    items: the calls of a batch.
    is_returned: it is returned to the client that sent the message, which makes it.
    is_charged: whether it counts against the agent's budget.
    origins: origins of what its result brings into the run, one a line.
    """

    arguments: dict[str, Any]
    effect: Effect
    risk: Risk
    timeout_seconds: int
    decision: str
    error: str = ""
    asks: ApprovalPrompt | None = None
    runs_in_loop: bool = False
    questions: tuple[Question, ...] = ()
    is_charged: bool = False
    origins: str = ""
    items: tuple[ToolCall, ...] = ()
    is_returned: bool = False


# By tool: its spec and the limit of calls, and the spec made of them.
_shown: WeakKeyDictionary[AnyTool, tuple[ToolSpec, int, ToolSpec]] = WeakKeyDictionary()


def specs_for(
    agent_policy: AgentPolicy,
    session_policy: SessionPolicy = OPEN_SESSION,
    *,
    flags: Mapping[str, bool] = catalogue.NO_FLAGS,
) -> tuple[ToolSpec, ...]:
    """Return the tools to offer to the agent's model: those that its policy does not deny outright.

    flags: see `catalogue.list_tools`.
    """
    if () in (agent_policy.tools, session_policy.tools):
        return ()
    limit = conf.max_timeout_seconds()
    return tuple(
        _advertised(tool, limit)
        for tool in catalogue.list_tools(agent_policy.agent_id, flags)
        if refuse_tool(tool.spec, agent_policy, session_policy) is None
    )


def _advertised(tool: AnyTool, limit: int) -> ToolSpec:
    """Return the spec of a tool as models see it, made once: each claim of a run needs it."""
    known = _shown.get(tool)
    if known is None or known[:2] != (tool.spec, limit):
        # Questions to users and batches have no time limit of their own to request.
        seconds = None if isinstance(tool, HumanTool | BatchTool) else limit
        known = _shown[tool] = tool.spec, limit, schema.advertised(tool.spec, max_timeout_seconds=seconds)
    return known[2]


def plan_executions(
    calls: Sequence[ToolCall],
    context: StepContext,
    *,
    policy: AgentPolicy,
    session_policy: SessionPolicy = OPEN_SESSION,
    text_length: int,
    client_tools: Sequence[ClientTool] = (),
) -> Planned:
    """Store one execution per call of a step, and nudge a worker for each that may run.

    An invalid call (unknown tool, malformed arguments, denied by the policy) is stored as Failed, with an error that
    the model can act on. A call that needs approval stays pending, with an approval request; a question stays pending,
    with an input request; a call of a client's tool stays pending until the client sends the output. The calls of a
    batch are planned with it.
    text_length: code points of the step's text.
    client_tools: tools of the client that sent the run's message.
    Joins the caller's transaction. The caller emits the events, and continues the run at once if no execution is open.
    Raises IntegrityError if the step was planned before.
    """
    gate = Gate(policy, session_policy, actor=context.actor, run_id=context.run_id, session_id=context.session_id)
    clients = {tool.spec.name: tool for tool in client_tools}
    planned = [each for index, call in enumerate(calls) for each in _with_items(index, call, gate, context, clients)]
    ToolExecution.objects.bulk_create([row for row, _ in planned])
    asked = {row.id: request_approval(row, plan.asks, context.asker) for row, plan in planned if plan.asks}
    to_ask = ((row, plan.questions) for row, plan in planned if plan.questions and not plan.error)
    questions = {row.id: request_input(row, form, context.asker, context.answer_seconds) for row, form in to_ask}
    new_events: list[NewEvent] = []
    for row, plan in planned:
        new_events += batches.requested(row, text_length=text_length, is_asked=row.id in asked)
        if row.id in asked:
            new_events.append(events.approval_requested(row, asked[row.id], context.asker))
        elif row.id in questions:
            new_events.append(events.input_requested(row, questions[row.id], context.asker))
        elif row.status != ExecutionStatus.PENDING:
            new_events += batches.ended(row, is_new=True)
        elif row.batch_id is None and not plan.items and not plan.is_returned:
            nudges.nudge_worker(row)
    new_events += [event for row, plan in planned if plan.items for event in batches.begin(row)]
    new_events += events.calls_returned([row for row, plan in planned if plan.is_returned])
    views = tuple(selectors.view(row) for row, _ in planned if row.batch_id is None)
    return Planned(views, new_events, asks=bool(asked), questions=bool(questions))


def _with_items(
    index: int, call: ToolCall, gate: Gate, context: StepContext, clients: Mapping[str, ClientTool]
) -> Iterator[tuple[ToolExecution, CallPlan]]:
    """Yield the row and the plan of a call, and if it is a batch, those of its items. Their indexes are unique, too."""
    plan = plan_call(call, clients[call.name], gate) if call.name in clients else _plan(call, gate)
    row = new_row(index, call, plan, context)
    yield row, plan
    for number, item in enumerate(plan.items):
        item_plan = _plan(item, gate, is_item=True)
        item_index = conf.MOST_BATCH_ITEMS * (index + 1) + number
        numbered = replace(item, id=f"{row.call_id[:190]}.{item.id}")
        yield new_row(item_index, numbered, item_plan, context, batch_id=row.id), item_plan


def new_row(
    index: int, call: ToolCall, plan: CallPlan, context: StepContext, *, batch_id: UUID | None = None
) -> ToolExecution:
    """Return the unsaved row of a planned call."""
    now = timezone.now()
    if plan.error:
        initial: dict[str, Any] = {"status": ExecutionStatus.FAILED, "error": plan.error, "completed_at": now}
    elif plan.is_returned:
        until = now + timedelta(minutes=settings.KOMAND_CLIENT_TOOL_MINUTES)
        initial = {"status": ExecutionStatus.PENDING, "client_until": until, "renudge_at": until}
    elif plan.asks or plan.questions or plan.items or batch_id:
        initial = {"status": ExecutionStatus.PENDING}  # nudged once it is approved, answered or released by its batch
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
        batch_id=batch_id,
        created_at=now,
        request_id=request_id.get(),
        **context.columns,
        **initial,
    )
    if plan.error:
        row.receipt = receipts.sign(row)
    return row


def _plan(call: ToolCall, gate: Gate, *, is_item: bool = False) -> CallPlan:
    return plan_call(call, catalogue.find_tool(call.name, gate.agent_policy.agent_id), gate, is_item=is_item)


def plan_call(call: ToolCall, tool: AnyTool | None, gate: Gate, *, is_item: bool = False) -> CallPlan:
    """Return the plan of one call of this tool: validated and authorized. tool: None if there is none."""
    arguments: dict[str, Any] = {}
    try:
        arguments = schema.read_arguments(call.arguments, max_characters=conf.MAX_ARGUMENTS_CHARACTERS)
        if tool is None:
            return _unknown_tool(call.name, arguments, gate)
        if is_item and isinstance(tool, HumanTool | BatchTool):
            return _refused(tool.spec, arguments, "no item", f"{call.name} cannot be called in a batch. Call it alone.")
        seconds, most = tool.spec.timeout_seconds, conf.max_timeout_seconds()
        if not isinstance(tool, ClientTool):  # its arguments are its own
            arguments, seconds = schema.take_timeout(arguments, default_seconds=seconds, max_seconds=most)
        schema.check_call(tool, arguments)
    except schema.ArgumentsError as problem:
        return _refused(tool.spec if tool else _NO_TOOL, arguments, "unfit arguments", str(problem))
    return _decided(tool, arguments, seconds, gate)


def _decided(tool: AnyTool, arguments: dict[str, Any], seconds: int, gate: Gate) -> CallPlan:
    verdict = gate.decide(tool, arguments, waiver=waiver_of(tool))
    error = f"This call is not allowed: {verdict.reason} Do not repeat it." if isinstance(verdict, Deny) else ""
    return CallPlan(
        arguments,
        tool.effect_of(arguments),
        tool.risk_of(arguments),
        seconds,
        decision=f"{type(verdict).__name__.lower()}: {verdict.reason}",
        error=error,
        asks=_prompt_of(verdict, tool, arguments, gate) if isinstance(verdict, Ask) else None,
        runs_in_loop=isinstance(tool, AsyncTool),
        questions=tool.questions_of(arguments) if isinstance(tool, HumanTool) else (),
        is_charged=not error,
        origins="\n".join(taint.origins_of(PolicyCall(tool.spec, arguments))),
        items=tool.calls_of(arguments) if isinstance(tool, BatchTool) and not error else (),
        is_returned=isinstance(tool, ClientTool) and not error,
    )


def _prompt_of(verdict: Ask, tool: AnyTool, arguments: dict[str, Any], gate: Gate) -> ApprovalPrompt:
    return ApprovalPrompt.of(verdict, gate.propose(tool, arguments), tool.credentials_of(arguments, gate.actor))


def waiver_of(tool: AnyTool) -> str:
    """Return why no call of the tool needs an approval, or an empty text."""
    if isinstance(tool, HumanTool):
        return "The call is itself a question to the user."  # an approval would only be another question
    if isinstance(tool, ClientTool):
        return "The client decides itself whether it carries out the call."
    return "Each call of the batch is decided by itself." if isinstance(tool, BatchTool) else ""


_NO_TOOL = ToolSpec(name="", description="", parameters={})


def _unknown_tool(name: str, arguments: dict[str, Any], gate: Gate) -> CallPlan:
    known = ", ".join(spec.name for spec in specs_for(gate.agent_policy, gate.session_policy)) or "none"
    error = f"There is no tool {_clean(name, 120)!r}. Available tools: {known}."
    return _refused(_NO_TOOL, arguments, "unknown tool", error)


def _refused(spec: ToolSpec, arguments: dict[str, Any], why: str, error: str) -> CallPlan:
    return CallPlan(arguments, spec.effect, spec.risk, spec.timeout_seconds, f"not decided: {why}", error)


def _clean(text: str, length: int) -> str:
    """Return a text chosen by the model as a column of that length can store it."""
    return text.replace("\0", "").encode(errors="replace").decode()[:length]
