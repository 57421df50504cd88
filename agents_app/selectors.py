"""Reads of agents, runs and steps, as frozen views."""

from collections.abc import Collection
from uuid import UUID

from django.db.models.functions import Substr

from agents_app import hot_queries
from agents_app.models import IS_OPEN, Agent, Run, Step
from agents_app.types import RunOptions, RunStatus, RunTranscript, RunView, Snapshot, StepView, Usage, WaitingOn
from audit_app.kernel.errors import found
from tools_app import selectors as tools
from tools_app.types import ToolCall


def get_agent(agent_id: str) -> Agent:
    """Return the agent with this public id, with its provider. Raises NotFound for an unknown or retired agent."""
    return found(hot_queries.GET_AGENT.first(agent_id=agent_id), no_agent(agent_id), code="unknown_agent")


def no_agent(agent_id: str) -> str:
    """Return the error message for an unknown agent."""
    return f"There is no agent {agent_id!r}."


def get_run(run_id: UUID) -> RunView:
    """Return a run. Raises NotFound."""
    return run_view(_run(run_id))


def _run(run_id: UUID) -> Run:
    return found(hot_queries.GET_RUN.first(run_id=run_id), "There is no such run.")


def get_options(run_id: UUID) -> RunOptions:
    """Return the options of the run's message. Raises NotFound."""
    stored = Run.objects.filter(pk=run_id).values_list("options", flat=True).first()
    return RunOptions.from_dict(found(stored, "There is no such run."))


def find_open_run(conversation_id: UUID) -> RunView | None:
    """Return the active run of the conversation, else the first of its queue."""
    runs = list_open_runs(conversation_id)
    return runs[0] if runs else None


def find_last_run(conversation_id: UUID) -> RunView | None:
    """Return the run of the conversation with the highest ordinal."""
    run = Run.objects.select_related("agent").filter(conversation_id=conversation_id).order_by("-ordinal").first()
    return run_view(run) if run else None


def list_open_runs(conversation_id: UUID) -> tuple[RunView, ...]:
    """Return the queued, running and waiting runs, in the order of execution."""
    return tuple(run_view(row) for row in hot_queries.LIST_OPEN_RUNS.fetch(conversation_id=conversation_id))


def list_busy(conversation_ids: Collection[UUID]) -> frozenset[UUID]:
    """Return those of the conversations that have an open run."""
    rows = Run.objects.filter(IS_OPEN, conversation_id__in=conversation_ids)
    return frozenset(rows.values_list("conversation_id", flat=True))


def count_open_runs(conversation_id: UUID) -> int:
    return len(hot_queries.LIST_OPEN_RUN_IDS.rows(conversation_id=conversation_id))


def list_steps(run_id: UUID) -> tuple[StepView, ...]:
    return tuple(step_view(step) for step in hot_queries.LIST_STEPS.fetch(run_id=run_id))


def list_steps_of(run_ids: Collection[UUID]) -> list[tuple[UUID, StepView]]:
    """Return the recorded steps of these runs, each with the run's id, in order."""
    rows = Step.objects.filter(run_id__in=run_ids).order_by("run_id", "index") if run_ids else ()
    return [(step.run_id, step_view(step)) for step in rows]


def find_step_text(run_id: UUID, step: int) -> str | None:
    """Return the text of a step; if the run ended before recording it, the partial text that the run kept."""
    text = Step.objects.filter(run_id=run_id, index=step).values_list("text", flat=True).first()
    if text is not None:
        return text
    ended = Run.objects.filter(pk=run_id, ended_at__isnull=False).values_list("answer", flat=True).first()
    if ended is None or Step.objects.filter(run_id=run_id).count() != step:
        return None
    return ended


def get_transcript(run_id: UUID, recorded: Snapshot | None = None) -> RunTranscript:
    """Return the run with all its steps and executions so far. Raises NotFound.

    recorded: holds the steps and executions, if the caller has them, so that they are not read again.
    """
    run = _run(run_id)
    steps = recorded.steps if recorded else list_steps(run_id)
    executions = recorded.executions if recorded else tools.list_executions(run_id)
    return RunTranscript(run_view(run), steps, executions, run.answer)


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
    )


def list_reasoning(run_ids: Collection[UUID], longest: int) -> dict[tuple[UUID, int], tuple[str, float]]:
    """Return the reasoning of the runs' steps by run and index, each cut after `longest`, and how long it took in s."""
    rows = Step.objects.filter(run_id__in=run_ids).exclude(reasoning="")
    found = rows.values_list("run_id", "index", Substr("reasoning", 1, longest), "reasoning_ms")
    return {(run_id, index): (text, milliseconds / 1000) for run_id, index, text, milliseconds in found}


def list_withdrawn(run_ids: Collection[UUID]) -> set[UUID]:
    """Return those of the runs that were cancelled before they began."""
    cancelled = Run.objects.filter(pk__in=run_ids, status=RunStatus.CANCELLED, started_at=None)
    return set(cancelled.values_list("pk", flat=True))


def step_view(step: Step) -> StepView:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in step.tool_calls)
    return StepView(
        index=step.index,
        text=step.text,
        tool_calls=calls,
        finish_reason=step.finish_reason,
        reasoning=step.reasoning,
        usage=Usage(step.input_tokens, step.output_tokens),
        turns_seen=step.turns_seen,
        reasoning_seconds=step.reasoning_ms / 1000,
    )
