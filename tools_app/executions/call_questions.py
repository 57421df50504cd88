"""Questions that calls ask people while they run, as servers do.

A call that can be made again ends its attempt and waits as a row, like a call of `ask_user`: the answer starts the next
attempt, in any process. A call that cannot waits in its process, up to its time limit.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.database import in_db
from tools_app.executions import events
from tools_app.executions.transitions import move, settle_input
from tools_app.executions.user_input import continue_call, request_input
from tools_app.models import InputRequest, ToolExecution
from tools_app.secrets import vault
from tools_app.types import AsksPerson, ExecutionStatus, Resumed, ToolError
from tools_app.types.questions import InputStatus, Question

_LOOK_SECONDS = 0.5


class RunWait(NamedTuple):
    """A run that waits for a person from now on.

    asker: name of the workstream that asks, for people; empty for none.
    events: for the caller to emit.
    """

    asker: str
    events: Sequence[NewEvent] = ()


def _nobody(run_id: UUID) -> RunWait | None:
    return None


# Lets the run of a call wait for a person, in the caller's transaction, which locks its row; None if nobody can be
# asked. `komand.wiring` sets it.
let_run_ask: Callable[[UUID], RunWait | None] = _nobody


def park(row: ToolExecution, asks: AsksPerson) -> None:
    """End the attempt of a call until a person has answered. Owns its transaction.

    If nobody can be asked, the next attempt begins at once. Does nothing if the attempt was ended elsewhere.
    """
    with transaction.atomic():
        wait = _wait_of(row)  # locks the run's row before those of its executions
        if not move(row.id, ExecutionStatus.PENDING, attempt=row.attempts):
            transaction.set_rollback(True)
            return
        request = request_input(row, asks.questions, wait.asker if wait else "", state=vault.seal(asks.state))
        if wait is None:
            settle_input(request.id, InputStatus.CANCELLED, answered_by="system")
            continue_call(row)
            return
        ToolExecution.objects.filter(pk=row.pk).update(renudge_at=None)
        audit.emit([*wait.events, events.input_requested(row, request, wait.asker)])


def resumed_of(row: ToolExecution) -> Resumed | None:
    """Return the answer to what earlier attempts of a call have asked; None if they asked nothing. Raises ToolError."""
    asked = InputRequest.objects.filter(execution=row).exclude(state_sealed="").order_by("-id").first()
    if asked is None:
        return None
    try:
        state = vault.unseal(asked.state_sealed)
    except vault.SealError:
        raise ToolError(
            "The call cannot go on: what it has asked cannot be read any more. Call the tool again."
        ) from None
    return Resumed(state, asked.answer if asked.status == InputStatus.ANSWERED else None)


async def ask_now(row: ToolExecution, questions: Sequence[Question]) -> str | None:
    """Ask a person while the call runs. Return the answer; None if nobody can be asked, or nobody answers in time."""
    request_id = await in_db(_begin, row, questions)
    if request_id is None:
        return None
    try:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            status, answer = await in_db(_look, request_id)
            if status != InputStatus.PENDING:
                return answer if status == InputStatus.ANSWERED else None
    finally:
        await in_db(_withdraw, request_id)  # of a call that has ended meanwhile


def _begin(row: ToolExecution, questions: Sequence[Question]) -> UUID | None:
    """Store a question of a running call, which expires with the time of the call. Return its id, None if not asked."""
    with transaction.atomic():
        wait = _wait_of(row)
        rows = ToolExecution.objects.select_for_update(no_key=True).annotate(now=Now())
        running = rows.filter(pk=row.pk, status=ExecutionStatus.RUNNING, attempts=row.attempts).first()
        if wait is None or running is None or running.started_at is None:
            return None
        left = running.timeout_seconds - (running.now - running.started_at).total_seconds()
        request = request_input(running, questions, wait.asker, max(left, 1.0))
        audit.emit([*wait.events, events.input_requested(running, request, wait.asker)])
        return request.id


def _look(request_id: UUID) -> tuple[str, str]:
    return InputRequest.objects.filter(pk=request_id).values_list("status", "answer").get()


def _withdraw(request_id: UUID) -> None:
    settle_input(request_id, InputStatus.CANCELLED, answered_by="system")


def _wait_of(row: ToolExecution) -> RunWait | None:
    """Return what `let_run_ask` returns. Calls of a batch do not ask: they are too many."""
    return let_run_ask(row.run_id) if row.batch_id is None else None
