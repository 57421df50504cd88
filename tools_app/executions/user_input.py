"""Questions to the user of a session, stored beside the execution that waits and answered by the user's next message.

A call that no process has started is a question itself, and ends with the answer; any other one goes on with it.
Answers, expiry and cancelled runs all use the same guarded update: the first one counts.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.shorten import one_line
from tools_app import catalogue, conf, hot_queries, selectors
from tools_app.executions import batches, events, nudges
from tools_app.executions.runner import start_here
from tools_app.executions.transitions import move, renudge_at, settle_input
from tools_app.models import InputRequest, ToolExecution
from tools_app.types import ExecutionStatus, HumanTool
from tools_app.types.questions import InputStatus, Question, text_of


@dataclass(frozen=True)
class Answered:
    """The execution that an answer ended, and the events for the caller to emit."""

    execution_id: UUID
    events: list[NewEvent]


def request_input(
    row: ToolExecution, questions: Sequence[Question], asker: str = "", seconds: float | None = None, state: str = ""
) -> InputRequest:
    """Store the questions of an execution, in the caller's transaction. Expires by the database's clock.

    asker: name of the workstream that asks, for people.
    seconds: time for the answer; None: as the installation says.
    state: sealed, of a call that is made again.
    """
    if asker:
        named = f"{one_line(asker, conf.LONGEST_ASKER)}: {questions[0].text}"
        questions = [replace(questions[0], text=named), *questions[1:]]
    request = InputRequest(
        execution=row,
        run_id=row.run_id,
        session_id=row.session_id,
        question=text_of(questions, with_options=False),
        options=list(questions[0].labels) if len(questions) == 1 else [],
        questions=[question.as_json() for question in questions],
        allows_text=any(question.allows_text for question in questions),
        state_sealed=state,
        created_at=timezone.now(),
        expires_at=Now() + timedelta(seconds=seconds or 60 * settings.KOMAND_INPUT_MINUTES),
    )
    request.save(force_insert=True)
    request.refresh_from_db(fields=["expires_at"])
    return request


def answer_input(run_id: UUID, text: str, *, actor: str, request_id: UUID | None = None) -> Answered | None:
    """Answer the run's oldest open question, or this one, in the caller's transaction.

    The caller emits the events and resumes the run. Returns None, without changes, if no such question is open.
    """
    rows = InputRequest.objects.select_related("execution").filter(run_id=run_id, status=InputStatus.PENDING)
    rows = rows.filter(pk=request_id) if request_id else rows
    request = rows.order_by("execution__step", "execution__call_index").first()
    if request is None:
        return None
    row = _lock(request)
    if row.attempts:
        if not settle_input(request.id, InputStatus.ANSWERED, answered_by=actor, answer=text):
            return None
        continue_call(row)
        return Answered(row.id, [])
    if not settle_input(request.id, InputStatus.ANSWERED, answered_by=actor):
        return None
    if not _run_at_once(row, _value(row, request, text)):
        return None
    row.refresh_from_db()
    return Answered(row.id, [events.ended(row)])


def continue_call(row: ToolExecution) -> None:
    """Nudge a worker for a call whose question is closed. One that runs reads the answer itself."""
    waiting = ToolExecution.objects.filter(pk=row.pk, status=ExecutionStatus.PENDING)
    if waiting.update(renudge_at=renudge_at(conf.RENUDGE_SECONDS)):
        nudges.nudge_worker(row)


def _run_at_once(row: ToolExecution, value: Any) -> bool:
    """Start and complete an execution that no process runs. Return False if it is no longer pending."""
    output = json.dumps(value, ensure_ascii=False)
    return start_here(row) and move(row.id, ExecutionStatus.COMPLETED, output=output)


def expire_inputs() -> set[UUID]:
    """End the questions that have expired; part of the sweep. Returns their runs."""
    runs: set[UUID] = set()
    for request in hot_queries.LIST_EXPIRED_INPUTS.fetch():
        with transaction.atomic():
            row = _lock(request)
            if settle_input(request.id, InputStatus.EXPIRED, answered_by="system"):
                continue_call(row) if row.attempts else _end_unanswered(row)
                runs.add(request.execution.run_id)
    return runs


def withdraw_input(row: ToolExecution) -> None:
    """Cancel the open question, if any, of an execution whose attempt has ended, in the caller's transaction."""
    for request in InputRequest.objects.filter(execution=row, status=InputStatus.PENDING):
        settle_input(request.id, InputStatus.CANCELLED, answered_by="system")


def _lock(request: InputRequest) -> ToolExecution:
    """Lock the execution's row before the question's, in the same order as a cancellation."""
    return ToolExecution.objects.select_for_update(no_key=True).get(pk=request.execution_id)


def _end_unanswered(row: ToolExecution) -> None:
    error = "The user did not answer in time. Continue without the answer, or explain why you need it."
    if move(row.id, ExecutionStatus.FAILED, error=error):
        row.refresh_from_db()
        audit.emit([events.ended(row)])
        batches.item_ended(row)


def _value(row: ToolExecution, request: InputRequest, text: str) -> Any:
    tool = catalogue.find_tool(row.tool, row.agent_id)
    if not isinstance(tool, HumanTool):  # it was removed meanwhile
        return {"answer": text}
    return tool.answer_of(selectors.questions_of(request), text)
