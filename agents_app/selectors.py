"""Reads of agents, runs and steps, as frozen views."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce, Substr

from agents_app import hot_queries
from agents_app.configuration.agent_access import get_agent as get_agent
from agents_app.configuration.agent_versions import use_version
from agents_app.models import IS_OPEN, IS_ROOT, ModelProvider, Run, RunMessage, Step, held_above
from agents_app.types import (
    REJECTED,
    RunOptions,
    RunStatus,
    RunTranscript,
    RunView,
    Snapshot,
    StepView,
    Usage,
    WaitingOn,
)
from agents_app.types.child_runs import FIRST_ORDINAL, ChildView, MessageKind, Phase, RunKind, state_of
from agents_app.types.prices import NANOS, PriceList
from agents_app.types.run_cost import Fallback, RunCost, TreeCost
from audit_app.kernel.compiled_queries import padded
from audit_app.kernel.errors import found
from tools_app import selectors as tools
from tools_app.types import ToolCall

_SUMMED = ("input_tokens", "output_tokens", "cost_nanos", "priced_calls")
_BLOCKED = (WaitingOn.PARENT.value, WaitingOn.CHILDREN.value, WaitingOn.BUDGET.value, WaitingOn.PLACE.value)


def get_run(run_id: UUID) -> RunView:
    """Return a run. Raises NotFound."""
    return run_view(_run(run_id))


def get_cost(run_id: UUID) -> RunCost:
    """Return what a run has used so far. Raises NotFound."""
    run = _run(run_id)
    models = Step.objects.filter(run_id=run_id).exclude(model="").order_by("index").values_list("model", flat=True)
    return RunCost(
        models=tuple(dict.fromkeys(models)),
        usage=Usage(run.input_tokens, run.output_tokens),
        cost=run.cost_nanos / NANOS if run.priced_calls else None,
        fallback=Fallback(**run.fallback) if run.fallback else None,
        seconds=(run.ended_at - run.started_at).total_seconds() if run.started_at and run.ended_at else None,
        with_workstreams=_tree_cost(run),
    )


def _tree_cost(run: Run) -> TreeCost | None:
    below = Run.objects.filter(root_id=run.root_id or run.id).order_by()
    if run.root_id:
        below = below.filter(pk__in=[view.launch_id for view in list_subtree(run.id)])
    sums = below.aggregate(Count("pk"), *(Sum(name) for name in _SUMMED))
    if not sums["pk__count"]:
        return None
    tokens_in, tokens_out, nanos, priced = (getattr(run, name) + sums[f"{name}__sum"] for name in _SUMMED)
    return TreeCost(Usage(tokens_in, tokens_out), nanos / NANOS if priced else None)


def list_provider_names() -> list[str]:
    return list(ModelProvider.objects.values_list("name", flat=True))


def price_list(provider: ModelProvider) -> PriceList:
    """Return the present prices of a provider's models. One query."""
    if provider.pk is None:
        return PriceList()
    rows = hot_queries.LIST_MODEL_PRICES.fetch(provider_id=provider.pk)
    return PriceList(tuple((row.model, row.price) for row in rows), provider.price)


def _run(run_id: UUID) -> Run:
    run = found(hot_queries.GET_RUN.first(run_id=run_id), "There is no such run.")
    return use_version(run) if run.names_version else run


def get_options(run_id: UUID) -> RunOptions:
    """Return the options of the run's message, with the JSON Schema of its answer, if any. Raises NotFound."""
    run = _run(run_id)
    return replace(RunOptions.from_dict(run.options), output_schema=run.output_schema)


def find_root_ordinal(run_id: UUID) -> int | None:
    """Return the ordinal of the root of a run's tree; None if there is no such run."""
    return Run.objects.filter(pk=run_id).values_list(Coalesce("root__ordinal", "ordinal"), flat=True).first()


def find_open_run(conversation_id: UUID) -> RunView | None:
    """Return the active run of the conversation, else the first of its queue."""
    return next(iter(list_open_runs(conversation_id)), None)


def find_open_compaction(conversation_id: UUID) -> UUID | None:
    """Return the id of an open run that only compacts the conversation."""
    rows = Run.objects.filter(IS_OPEN, IS_ROOT, conversation_id=conversation_id, options__compacts_only=True)
    return rows.values_list("pk", flat=True).first()


def find_last_run(conversation_id: UUID) -> RunView | None:
    """Return the run of the conversation with the highest ordinal."""
    rows = Run.objects.select_related("agent").filter(IS_ROOT, conversation_id=conversation_id).order_by("-ordinal")
    return next(map(run_view, rows[:1]), None)


def list_open_runs(conversation_id: UUID) -> tuple[RunView, ...]:
    """Return the queued, running and waiting runs, in the order of execution."""
    return tuple(run_view(row) for row in hot_queries.LIST_OPEN_RUNS.fetch(conversation_id=conversation_id))


def list_busy(conversation_ids: Collection[UUID]) -> frozenset[UUID]:
    """Return those of the conversations that have an open run."""
    if not conversation_ids:
        return frozenset()
    values = {f"conversation_{n}": found for n, found in enumerate(padded([*conversation_ids]))}
    return frozenset(row[0] for row in hot_queries.busy_among(len(values)).rows(**values))


def list_descendant_ids(run_id: UUID) -> list[UUID]:
    """Return the ids of the child runs of a root run, at any depth."""
    return list(Run.objects.filter(root_id=run_id).order_by().values_list("pk", flat=True))


def list_descendants(root_ids: Collection[UUID]) -> tuple[ChildView, ...]:
    """Return the child runs of these root runs, at any depth, oldest first. Two queries, one if there are none."""
    rows = list(Run.objects.select_related("agent").filter(root_id__in=root_ids).order_by("created_at", "id"))
    return child_views(rows)


def list_subtree(run_id: UUID) -> tuple[ChildView, ...]:
    """Return the child runs of this run, at any depth, oldest first. Raises NotFound."""
    run = _run(run_id)
    above, found = {run.id}, list[ChildView]()
    for view in list_descendants([run.root_id or run.id]):  # a parent is older than its children
        if view.parent_id in above:
            above.add(view.launch_id)
            found.append(view)
    return tuple(found)


def get_child(run_id: UUID) -> ChildView:
    """Return a child run. Raises NotFound, also for a root run."""
    row = Run.objects.select_related("agent").filter(pk=run_id, parent__isnull=False).first()
    return child_views([found(row, "There is no such workstream.")])[0]


def child_views(rows: Sequence[Run]) -> tuple[ChildView, ...]:
    """Return the views of rows that were loaded with their agents. At most two queries."""
    executing = [row.id for row in rows if row.waiting_on == WaitingOn.TOOLS.value]
    names, held = tools.list_open_tools(executing) if executing else {}, held_above(rows)
    return tuple(child_view(row, current_tool=names.get(row.id, ""), is_held=row.id in held) for row in rows)


def list_open_run_ids(conversation_id: UUID) -> list[tuple[UUID, str, UUID | None]]:
    """Return open runs of the conversation, with what they wait for and their parents: child runs if they ask only."""
    return list(hot_queries.LIST_OPEN_RUN_IDS.rows(conversation_id=conversation_id))


def has_unstored_runs(conversation_id: UUID) -> bool:
    """Return whether a run of the conversation is open, or has ended and its end is not stored yet."""
    return Run.objects.filter(IS_ROOT, conversation_id=conversation_id, end_stored=False).exists()


def list_steps(run_id: UUID) -> tuple[StepView, ...]:
    return tuple(step_view(step) for step in hot_queries.LIST_STEPS.fetch(run_id=run_id))


def list_steps_of(run_ids: Collection[UUID]) -> list[tuple[UUID, StepView]]:
    """Return the recorded steps of these runs, each with the run's id, in order."""
    steps = Step.objects.filter(run_id__in=run_ids, kind=Step.MODEL).order_by("run_id", "index") if run_ids else ()
    return [(step.run_id, step_view(step)) for step in steps]


def list_workstreams(conversation_id: UUID, names: Collection[int | UUID] = ()) -> tuple[ChildView, ...]:
    """Return the child runs of a conversation with these numbers or ids, else the open ones, oldest first."""
    ordinals = [FIRST_ORDINAL + name - 1 for name in names if isinstance(name, int)]
    named = Q(ordinal__in=ordinals) | Q(pk__in=[name for name in names if isinstance(name, UUID)])
    rows = Run.objects.filter(named if names else IS_OPEN, conversation_id=conversation_id, ordinal__gte=FIRST_ORDINAL)
    return child_views(list(rows.select_related("agent").order_by("ordinal")))


def list_person_messages(run_ids: Collection[UUID]) -> list[tuple[UUID, int, str]]:
    """Return the messages of people to these child runs: the run, the position among its user turns, and the text."""
    rows = RunMessage.objects.filter(run_id__in=run_ids, kind=MessageKind.PERSON.value).order_by("run_id", "position")
    return list(rows.values_list("run_id", "position", "text")) if run_ids else []


def count_preparations(run_id: UUID) -> tuple[int, int]:
    """Return the numbers of the run's recorded compactions and transcriptions, also failed ones."""
    kinds = list(Step.objects.filter(run_id=run_id).exclude(kind=Step.MODEL).values_list("kind", flat=True))
    return kinds.count(Step.COMPACT), kinds.count(Step.TRANSCRIBE)


def last_usage(conversation_id: UUID, model: str) -> tuple[int, int]:
    """Return the reported and the estimated input tokens of the conversation's last call of this model, else zeros."""
    steps = Step.objects.filter(run__conversation_id=conversation_id, run__parent=None, kind=Step.MODEL, model=model)
    known = steps.filter(input_tokens__gt=0, estimated_tokens__gt=0).order_by("-run__ordinal", "-index")
    return known.values_list("input_tokens", "estimated_tokens").first() or (0, 0)


def find_step_text(run_id: UUID, step: int) -> str | None:
    """Return the text of a step, empty if its answer was rejected.

    If the run ended before recording it: the partial text that the run kept.
    """
    steps = Step.objects.filter(run_id=run_id, kind=Step.MODEL)
    for text, finish_reason in hot_queries.FIND_STEP_TEXT.rows(run_id=run_id, step=step):
        return "" if finish_reason == REJECTED else str(text)
    ended = Run.objects.filter(pk=run_id, ended_at__isnull=False).values_list("answer", flat=True).first()
    if ended is None or steps.count() != step:
        return None
    return ended


def get_transcript(run_id: UUID, recorded: Snapshot | None = None) -> RunTranscript:
    """Return the run with all its steps and executions so far. Raises NotFound.

    recorded: holds the steps and executions, if the caller has them, so that they are not read again.
    """
    run = _run(run_id)
    steps = recorded.steps if recorded else list_steps(run_id)
    executions = recorded.executions if recorded else tools.list_executions(run_id)
    team = _tree_cost(run) if run.child_count else None
    return RunTranscript(run_view(run), steps, executions, run.answer, run.output_schema is not None, team)


def count_waits_for_place() -> dict[str, int]:
    """Return the number of queued runs that wait for a place, by user."""
    rows = Run.objects.filter(status=RunStatus.QUEUED.value, waiting_on=WaitingOn.PLACE.value, owner=None)
    return dict(rows.order_by("actor").values_list("actor").annotate(Count("id")))


def run_view(run: Run) -> RunView:
    """Return the view of a row. The row has to be loaded with its agent."""
    waits_for_retry = run.waiting_on == WaitingOn.RETRY.value
    return RunView(
        id=run.id,
        conversation_id=run.conversation_id,
        agent_id=run.agent.agent_id,
        ordinal=run.ordinal,
        status=RunStatus(run.status),
        waiting_on=WaitingOn(run.waiting_on) if run.waiting_on else None,
        fence=run.fence,
        crashes=run.crashes,
        error_code=run.error_code,
        error_message=run.error_message,
        retry_at=run.ready_at if waits_for_retry else None,
        request_id=run.request_id,
        actor=run.actor,
        usage=Usage(run.input_tokens, run.output_tokens),
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        agent_version=run.agent_version,
        parent_id=run.parent_id,
        workstream=run.workstream,
        path=run.child_spec.path if run.parent_id else (),
    )


def child_view(run: Run, *, current_tool: str | None = None, is_held: bool = False) -> ChildView:
    """Return the view of a child run. The row has to be loaded with its agent.

    current_tool: that it executes, if the caller knows it.
    is_held: the deadline stands still.
    """
    spec, asks = run.child_spec, run.waiting_on if run.waits_for_person else ""
    is_idle = run.status == RunStatus.WAITING.value and run.waiting_on == WaitingOn.PARENT.value
    phase, tool = _phase_of(run, asks, current_tool)
    return ChildView(
        launch_id=run.id,
        parent_id=run.parent_id or run.id,
        workstream=run.workstream,
        name=spec.name,
        instruction=spec.instruction,
        agent_id=run.agent.agent_id,
        kind=RunKind(run.kind),
        state=state_of(run.status, is_terminating=run.terminated_at is not None),
        phase=phase,
        current_tool=tool,
        is_interactive=spec.is_interactive,
        is_idle=is_idle,
        is_paused=run.is_paused,
        asks=asks,
        result=run.answer,
        error=run.error_message if run.ended_at else "",
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        deadline_at=None if is_held or asks else (run.alarm_at if is_idle else run.deadline_at),
        deadline_seconds=spec.deadline_seconds,
        usage=Usage(run.input_tokens, run.output_tokens),
        cost=run.cost_nanos / NANOS if run.priced_calls else None,
        path=spec.path,
        number=run.ordinal - FIRST_ORDINAL + 1,
    )


def _phase_of(run: Run, asks: str, current_tool: str | None) -> tuple[Phase, str]:
    """Return the phase of a child run, and the name of the tool that it executes."""
    if run.ended_at:
        return Phase.DONE, ""
    if asks or run.waiting_on in _BLOCKED:
        return Phase.BLOCKED, ""
    if run.waiting_on == WaitingOn.TOOLS.value:
        tool = tools.list_open_tools([run.id]).get(run.id, "") if current_tool is None else current_tool
        return Phase.EXECUTING_TOOL, tool
    return (Phase.SYNTHESIZING if run.input_tokens else Phase.PLANNING), ""


def list_reasoning(run_ids: Collection[UUID], longest: int) -> dict[tuple[UUID, int], tuple[str, float]]:
    """Return the reasoning of the runs' steps by run and index, each cut after `longest`, and how long it took in s."""
    rows = Step.objects.filter(run_id__in=run_ids).exclude(reasoning="")
    found = rows.values_list("run_id", "index", Substr("reasoning", 1, longest), "reasoning_ms")
    return {(run_id, index): (text, milliseconds / 1000) for run_id, index, text, milliseconds in found}


def list_fallbacks(run_ids: Collection[UUID]) -> dict[UUID, Fallback]:
    """Return the fallback of those of the runs that did not keep their agent's model."""
    rows = Run.objects.filter(pk__in=run_ids, fallback__isnull=False).values_list("id", "fallback")
    return {run_id: Fallback(**stored) for run_id, stored in rows if stored}


def list_withdrawn(run_ids: Collection[UUID]) -> set[UUID]:
    """Return those of the runs that were cancelled before they began."""
    cancelled = Run.objects.filter(pk__in=run_ids, status=RunStatus.CANCELLED, started_at=None)
    return set(cancelled.values_list("pk", flat=True))


def step_view(step: Step) -> StepView:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in step.tool_calls)
    is_rejected = step.finish_reason == REJECTED
    return StepView(
        index=step.index,
        text="" if is_rejected else step.text,
        tool_calls=calls,
        finish_reason=step.finish_reason,
        reasoning=step.reasoning,
        usage=Usage(step.input_tokens, step.output_tokens, step.cached_input_tokens, step.reasoning_tokens),
        turns_seen=step.turns_seen,
        reasoning_seconds=step.reasoning_ms / 1000,
        rejected_text=step.text if is_rejected else "",
        dialect_state=step.dialect_state,
    )
