"""Queries of executions, approvals and questions, which return frozen views. Writes nothing."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from audit_app.kernel.errors import found
from audit_app.kernel.redact import masked_text
from audit_app.kernel.shorten import one_line
from tools_app import conf, hot_queries
from tools_app.models import IS_OPEN, UNKNOWN_ORIGINS, Approval, InputRequest, McpServer, SkillInstall, ToolExecution
from tools_app.run_progress import BATCH, Batch, BatchItem
from tools_app.types import ApprovalStatus, ApprovalView, ExecutionStatus, ExecutionView, view_of
from tools_app.types.pictures import Picture
from tools_app.types.questions import InputStatus, InputView, Question, plain_options

_LONGEST_MESSAGE = 200
_ITEM_STATUSES = {
    ExecutionStatus.PENDING: "pending",
    ExecutionStatus.RUNNING: "running",
    ExecutionStatus.COMPLETED: "success",
}


def list_executions(run_id: UUID) -> tuple[ExecutionView, ...]:
    """Return the executions of a run, ordered by step and call."""
    return tuple(view(row) for row in hot_queries.LIST_EXECUTIONS.fetch(run_id=run_id))


def list_executions_of_runs(run_ids: Collection[UUID]) -> tuple[ExecutionView, ...]:
    """Return the executions of these runs, ordered by run, step and call."""
    rows = ToolExecution.objects.filter(run_id__in=run_ids, batch_id=None)
    return tuple(view(row) for row in rows.order_by("run_id", "step", "call_index"))


def list_waits(run_ids: Collection[UUID]) -> list[tuple[datetime, datetime | None]]:
    """Return from when until when calls of these runs waited for a person, oldest first. None: they still wait."""
    approvals = Approval.objects.filter(execution__run_id__in=run_ids).values_list("created_at", "decided_at")
    questions = InputRequest.objects.filter(execution__run_id__in=run_ids).values_list("created_at", "answered_at")
    return sorted([*approvals, *questions], key=lambda wait: wait[0])


def list_open_tools(run_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the tool that each of these runs executes, its first one if there are several."""
    rows = open_executions().filter(run_id__in=run_ids, batch_id=None).order_by("run_id", "-step", "-call_index")
    return dict(rows.values_list("run_id", "tool"))


def list_executions_of(execution_ids: Collection[UUID]) -> tuple[ExecutionView, ...]:
    """Return the executions with these ids, oldest first. Unknown ids are left out."""
    return tuple(view(row) for row in ToolExecution.objects.filter(id__in=execution_ids).order_by("id"))


def get_execution(execution_id: UUID) -> ExecutionView:
    """Return an execution. Raises NotFound."""
    return view(found(ToolExecution.objects.filter(id=execution_id).first(), "There is no such tool execution."))


def list_batches(execution_ids: Collection[UUID]) -> dict[UUID, Batch]:
    """Return the state of these batches, by the id of their execution. Two queries."""
    rows = ToolExecution.objects.filter(pk__in=execution_ids, tool=BATCH)
    batches = list(rows.only("arguments", "created_at", "completed_at"))
    columns = ("batch_id", "status", "error", "started_at", "completed_at")
    items: dict[UUID | None, list[ToolExecution]] = {batch.pk: [] for batch in batches}
    for row in ToolExecution.objects.filter(batch_id__in=items).only(*columns).order_by("call_index"):
        items[row.batch_id].append(row)
    return {batch.pk: _batch(batch, items[batch.pk]) for batch in batches}


def _batch(row: ToolExecution, items: Sequence[ToolExecution]) -> Batch:
    return Batch(
        row.pk,
        str(row.arguments.get("tool", "")),
        tuple(_batch_item(number, item) for number, item in enumerate(items, start=1)),
        _milliseconds(row.created_at),
        _milliseconds(row.completed_at) if row.completed_at else None,
    )


def _batch_item(number: int, row: ToolExecution) -> BatchItem:
    status = ExecutionStatus(row.status)
    duration = duration_of(row)
    message = "" if status is ExecutionStatus.COMPLETED else one_line(masked_text(row.error or ""), _LONGEST_MESSAGE)
    milliseconds = None if duration is None else round(duration * 1000)
    return BatchItem(str(number), row.pk, _ITEM_STATUSES.get(status, "error"), message, milliseconds)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def list_asking_items(batch_ids: Collection[UUID]) -> tuple[ExecutionView, ...]:
    """Return the items of these batches for which an approval is or was requested."""
    rows = ToolExecution.objects.filter(batch_id__in=batch_ids, approval__isnull=False)
    return tuple(view(row) for row in rows.order_by("call_index"))


def has_open(run_id: UUID) -> bool:
    """Return whether any execution of the run is pending or running."""
    return bool(hot_queries.FIND_OPEN_EXECUTION.rows(run_id=run_id))


def open_executions() -> QuerySet[ToolExecution]:
    """Return the pending and running executions.

    Usable as a subquery: `Exists(open_executions().filter(run_id=OuterRef("id")))`.
    """
    return ToolExecution.objects.filter(IS_OPEN).order_by()


def list_running(owner: UUID) -> frozenset[tuple[UUID, int]]:
    """Return the executions that a process runs, as (id, number of the attempt)."""
    return frozenset(ToolExecution.objects.filter(owner=owner).order_by().values_list("id", "attempts"))


def find_waiting_for_loop() -> UUID | None:
    """Return the execution that has waited longest for an event loop. Calls that need approval do not wait for one."""
    waiting = ToolExecution.objects.filter(status=ExecutionStatus.PENDING, runs_in_loop=True, renudge_at__isnull=False)
    return waiting.order_by("renudge_at").values_list("id", flat=True).first()


def count_untaken() -> int:
    """Return how many calls no worker has taken for UNTAKEN_SECONDS, although workers were nudged.

    Without the calls whose waiting time is not stored: items of a batch, and calls that are repeated. Calls of clients'
    tools wait for no worker.
    """
    nudged = ToolExecution.objects.filter(renudge_at__isnull=False, attempts=0, batch_id=None, client_until=None)
    return nudged.filter(charged_at__lte=Now() - timedelta(seconds=conf.UNTAKEN_SECONDS)).order_by().count()


def view(row: ToolExecution) -> ExecutionView:
    status, origins = ExecutionStatus(row.status), () if row.origins == UNKNOWN_ORIGINS else row.origins.splitlines()
    pictures = tuple(map(Picture.from_json, row.pictures)) if row.pictures else ()
    given = {"status": status, "duration_seconds": duration_of(row), "origins": tuple(origins), "pictures": pictures}
    return view_of(ExecutionView, row, **given)


def duration_of(row: ToolExecution) -> float | None:
    """Return the seconds that a call took, None if it has not run or runs."""
    if row.started_at is None or row.completed_at is None:
        return None
    return max((row.completed_at - row.started_at).total_seconds(), 0.0)


def get_approval(approval_id: UUID) -> ApprovalView:
    """Return an approval request. Raises NotFound."""
    row = Approval.objects.select_related("execution").filter(id=approval_id).first()
    return approval_view(found(row, "There is no such approval."))


def list_approvals(
    *,
    status: str = "",
    session_ids: Collection[UUID] | None = None,
    credential_owner: str = "",
    limit: int = 50,
    offset: int = 0,
) -> tuple[ApprovalView, ...]:
    """Return approval requests, newest first.

    session_ids: None for all sessions.
    credential_owner: also those of other sessions that use credentials of this owner.
    """
    rows = Approval.objects.select_related("execution").order_by("-id")
    if status:
        rows = rows.filter(status=status)
    if session_ids is not None:
        of_sessions = Q(execution__session_id__in=session_ids)
        rows = rows.filter(of_sessions | Q(credential_owner=credential_owner) if credential_owner else of_sessions)
    return tuple(approval_view(row) for row in rows[offset : offset + limit])


def list_approvals_of(execution_ids: Collection[UUID]) -> tuple[ApprovalView, ...]:
    """Return the approval requests of these executions. Most executions have none."""
    rows = Approval.objects.select_related("execution").filter(execution_id__in=execution_ids)
    return tuple(approval_view(row) for row in rows)


def find_calls(tool: str, argument: str, run_ids: Collection[UUID]) -> dict[tuple[UUID, str], UUID]:
    """Return the last completed call of the tool by run and text of one argument.

    Reads no other argument: they may be long.
    """
    rows = ToolExecution.objects.filter(run_id__in=run_ids, tool=tool, status=ExecutionStatus.COMPLETED)
    calls = rows.order_by("id").values_list("run_id", f"arguments__{argument}", "id")
    return {(run_id, text): execution_id for run_id, text, execution_id in calls}


def list_pending_approvals(limit: int = 500) -> tuple[ApprovalView, ...]:
    """Return the pending approval requests, the next to expire first."""
    rows = pending_approvals().select_related("execution")
    return tuple(approval_view(row) for row in rows.order_by("expires_at")[:limit])


def pending_approvals() -> QuerySet[Approval]:
    """Return the pending approval requests. Usable as a subquery, like `open_executions`."""
    return Approval.objects.filter(status=ApprovalStatus.PENDING.value).order_by()


OPEN_REQUESTS = (hot_queries.FIND_PENDING_APPROVAL, hot_queries.FIND_OPEN_QUESTION)


def has_pending_approvals() -> bool:
    """Return whether any approval request is pending. For sweeps, each second."""
    return bool(hot_queries.FIND_PENDING_APPROVAL.rows())


def has_pending_approval(run_id: UUID) -> bool:
    return Approval.objects.filter(run_id=run_id, status=ApprovalStatus.PENDING).exists()


def find_question(session_id: UUID, request_id: UUID | None = None) -> InputView | None:
    """Return the oldest open question of the session, or this one if it is open; else None."""
    open_now = [pk for (pk,) in hot_queries.FIND_OPEN_QUESTIONS.rows(session_id=session_id)]
    wanted = [pk for pk in open_now if UUID(str(pk)) == request_id] if request_id else open_now
    return input_view(InputRequest.objects.get(pk=wanted[0])) if wanted else None


def find_question_ids(execution_ids: Collection[str]) -> dict[str, str]:
    """Return the ids of these executions' last questions, by execution. Executions without one are left out."""
    wanted = [UUID(execution_id) for execution_id in execution_ids]
    rows = InputRequest.objects.filter(execution_id__in=wanted).order_by("id").values_list("execution_id", "id")
    return {str(execution_id): str(request_id) for execution_id, request_id in rows}


def pending_questions() -> QuerySet[InputRequest]:
    """Return the questions that are open now."""
    return InputRequest.objects.filter(status=InputStatus.PENDING, expires_at__gt=Now()).order_by()


def has_open_questions() -> bool:
    """Return whether any question is open now. For sweeps, each second."""
    return bool(hot_queries.FIND_OPEN_QUESTION.rows())


def source_flags(agent_id: OuterRef) -> dict[str, Exists]:
    """Return a column for each `ToolSource.flag`: whether the source may have tools for the agent of this public id."""
    servers = McpServer.objects.filter(name__gt="")  # which the index of names answers
    return {"has_servers": Exists(servers), "has_skills": Exists(SkillInstall.objects.filter(agent_id=agent_id))}


def find_closed_question(request_id: UUID) -> tuple[InputView, str] | None:
    """Return a question that is not open any more, with the answer as text, empty if there is none. None if deleted."""
    row = InputRequest.objects.select_related("execution").filter(pk=request_id).first()
    if row is None:
        return None
    if row.answer or row.status != InputStatus.ANSWERED:
        return input_view(row), row.answer
    output = json.loads(row.execution.output or "null")
    answer = output.get("answer") or output.get("text") if isinstance(output, dict) else output
    return input_view(row), str(answer or "")


def has_open_question(run_id: UUID) -> bool:
    return InputRequest.objects.filter(run_id=run_id, status=InputStatus.PENDING).exists()


def list_questions_of(execution_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the text of these executions' last questions, answered or not. Most executions have none."""
    rows = InputRequest.objects.filter(execution_id__in=execution_ids).order_by("id")
    return dict(rows.values_list("execution_id", "question"))


def list_asked(execution_ids: Collection[UUID]) -> dict[UUID, tuple[InputView, str]]:
    """Return the last question of each of these executions that was asked during the call, with its answer."""
    rows = InputRequest.objects.filter(execution_id__in=execution_ids).order_by("id")
    return {row.execution_id: (input_view(row), row.answer) for row in rows}


def find_asked(run_id: UUID) -> InputView | None:
    """Return the open question of a run that its next message answers, None if it has none."""
    rows = pending_questions().filter(run_id=run_id)
    row = rows.order_by("execution__step", "execution__call_index").first()
    return input_view(row) if row else None


def questions_of(row: InputRequest) -> tuple[Question, ...]:
    if row.questions:
        return tuple(map(Question.from_json, row.questions))
    return (Question(row.question, plain_options(row.options), row.allows_text),)  # a release before stored it


def input_view(row: InputRequest) -> InputView:
    return view_of(InputView, row, questions=questions_of(row), status=InputStatus(row.status))


def approval_view(row: Approval) -> ApprovalView:
    """Return the frozen view of a row loaded with its execution."""
    names = ("session_id", "agent_id", "tool", "arguments", "risk", "workstream")
    call = {name: getattr(row.execution, name) for name in names}
    stored = {
        "credentials": tuple(row.credentials),
        "origins": tuple(row.origins.splitlines()),
        "targets": (),
        "places": (),
    }
    return view_of(ApprovalView, row, **call, **stored, status=ApprovalStatus(row.status))
