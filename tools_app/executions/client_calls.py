"""Calls of clients' tools: the client that sent a run's message makes them, and sends the outputs.

Outputs and expiry use the same guarded update: the first one counts.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from tools_app import schema, selectors
from tools_app.executions.runner import Outcome, completed, finish, start_here
from tools_app.models import ToolExecution
from tools_app.types import ExecutionStatus

_EXPIRED = Outcome(ExecutionStatus.TIMED_OUT, error="The client did not send the output of its tool in time.")


def answer_client_calls(run_id: UUID, outputs: Mapping[UUID, str]) -> int:
    """Store the outputs of open calls of a run, in the caller's transaction, and let the run continue after the last.

    outputs: texts, by execution. Return how many calls were open.
    """
    return sum(_end(row, completed(_value(outputs[row.pk]))) for row in _open_calls(run_id) if row.pk in outputs)


def expire_client_calls(run_id: UUID) -> int:
    """End the open calls of a run that its client has left, in the caller's transaction. Return their number."""
    return sum(_end(row, _EXPIRED) for row in _open_calls(run_id))


def expire(row: ToolExecution) -> None:
    """End a call whose time has passed; part of the sweep. Owns its transaction."""
    with transaction.atomic():
        for locked in _open_calls(row.run_id).filter(pk=row.pk):
            _end(locked, _EXPIRED)


def _open_calls(run_id: UUID) -> QuerySet[ToolExecution]:
    """Return the calls that wait for their client, and lock them once they are read."""
    rows = selectors.open_executions().filter(run_id=run_id, client_until__isnull=False)
    return rows.select_for_update(no_key=True).order_by("id")


def _end(row: ToolExecution, outcome: Outcome) -> bool:
    """Start and end a call. Return False if it is no longer pending."""
    return start_here(row) and finish(row, outcome)


def _value(text: str) -> Any:
    """Return the JSON value of an output. A text that is no JSON is the value itself."""
    with suppress(ValueError, RecursionError):
        return schema.parse_json(text)
    return text
