"""Batches: calls of one tool over a list, each with an execution and a receipt of its own, a few at a time.

The execution of the batch itself is run by no process: it ends with the last of its items. Code that ends an item locks
the batch first (`lock`), so that items end one after the other, and calls `item_ended` after `emit`.
"""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.conf import settings

from audit_app import services as audit
from audit_app.event_types import NewEvent
from tools_app import conf, selectors
from tools_app.executions import events, nudges
from tools_app.executions.transitions import move, renudge_at
from tools_app.models import Approval, ToolExecution
from tools_app.run_progress import BATCH
from tools_app.types import ApprovalStatus, ExecutionStatus

# Events of the progress of one batch, at most.
_MOST_EVENTS = 20


def lock(row: ToolExecution) -> None:
    """Lock the batch of an item before the item, in the same order as a cancellation."""
    if row.batch_id:
        ToolExecution.objects.select_for_update(no_key=True).filter(pk=row.batch_id).first()


def lock_all(run_id: UUID) -> list[UUID]:
    """Lock the open batches of a run and return their ids."""
    rows = selectors.open_executions().select_for_update(no_key=True).filter(run_id=run_id, tool=BATCH).order_by("id")
    return [row.pk for row in rows]


def requested(row: ToolExecution, *, text_length: int, is_asked: bool) -> list[NewEvent]:
    """Return the event of a planned call. An item is audited alone, unless it asks for an approval."""
    return _shown(row, events.requested(row, text_length=text_length), is_asked=is_asked)


def ended(row: ToolExecution, *, is_new: bool = False) -> list[NewEvent]:
    """Return the event of a call that has ended. An item is audited alone, unless it asked for an approval.

    is_new: it ended while it was planned, so it asked for no approval.
    """
    is_asked = not is_new and row.batch_id is not None and Approval.objects.filter(execution=row).exists()
    return _shown(row, events.ended(row), is_asked=is_asked)


def _shown(row: ToolExecution, event: NewEvent, *, is_asked: bool) -> list[NewEvent]:
    if row.batch_id is None or is_asked:
        return [event]
    events.record(event)
    return []


def begin(batch: ToolExecution) -> list[NewEvent]:
    """Begin a batch whose items were planned in this transaction. Returns the events for the caller to emit."""
    move(batch.pk, ExecutionStatus.RUNNING)
    batch.refresh_from_db()
    events.record_started(batch)
    return _advance(batch)


def item_ended(row: ToolExecution) -> None:
    """Release the next items after the end of a call, and nudge the planner of the run if no call is open.

    Call it after `emit`.
    """
    if row.batch_id:
        advance([row.batch_id])
    nudges.nudge_if_done(row)


def advance(batch_ids: Sequence[UUID]) -> None:
    """Release the next items of these batches, which are locked, and end those whose items have all ended."""
    for batch in ToolExecution.objects.filter(pk__in=batch_ids, status=ExecutionStatus.RUNNING).order_by("id"):
        audit.emit(_advance(batch))


def _advance(batch: ToolExecution) -> list[NewEvent]:
    rows = ToolExecution.objects.filter(batch_id=batch.pk).order_by("call_index")
    # Results are read once, at the end: a thousand items can have 256 MB of them.
    items = list(rows.only("status", "renudge_at", "runs_in_loop", "timeout_seconds"))
    still_open = [item for item in items if not ExecutionStatus(item.status).is_terminal]
    if not still_open:
        return _complete(batch, list(rows.only("status", "output", "error", "origins")))
    _start_next(still_open)
    return [progress(batch)] if _is_due(len(items), len(items) - len(still_open)) else []


def _complete(batch: ToolExecution, items: Sequence[ToolExecution]) -> list[NewEvent]:
    output, origins = result_of(items), sorted({each for item in items for each in item.origins.splitlines()})
    if not move(batch.pk, ExecutionStatus.COMPLETED, output=output, origins="\n".join(origins)):
        return []
    batch.refresh_from_db()
    return [progress(batch), events.ended(batch)]


def _start_next(still_open: Sequence[ToolExecution]) -> None:
    """Let as many of the waiting items run as a batch may at once."""
    asked = set(
        Approval.objects.filter(
            execution_id__in=[item.pk for item in still_open], status=ApprovalStatus.PENDING
        ).values_list("execution_id", flat=True)
    )
    waiting = [item for item in still_open if item.status == ExecutionStatus.PENDING and item.renudge_at is None]
    free = settings.KOMAND_BATCH_PARALLEL - (len(still_open) - len(waiting))
    for item in [item for item in waiting if item.pk not in asked][: max(free, 0)]:
        pending = ToolExecution.objects.filter(pk=item.pk, status=ExecutionStatus.PENDING)
        pending.update(renudge_at=renudge_at(conf.RENUDGE_SECONDS))
        nudges.nudge_worker(item)


def progress(batch: ToolExecution) -> NewEvent:
    """Return the event with the state of a batch as it is now."""
    return events.batch_progress(batch, selectors.list_batches([batch.pk])[batch.pk])


def _is_due(total: int, done: int) -> bool:
    """Return whether an event follows the end of that item: long batches have few, with all items in each."""
    return total <= _MOST_EVENTS or done * _MOST_EVENTS // total != (done - 1) * _MOST_EVENTS // total


def result_of(items: Sequence[ToolExecution]) -> str:
    """Return the result of a batch for the model, as JSON text: that of each item, cut if they are too long."""
    room = conf.MAX_OUTPUT_CHARACTERS // 2 // max(len(items), 1)
    results, sources = [], []
    for number, item in enumerate(items, start=1):
        if item.status != ExecutionStatus.COMPLETED:
            error = (item.error or "The tool call did not complete.")[:room]
            results.append({"id": str(number), "status": "error", "error": f"[{item.status}] {error}"})
            continue
        value, found = _value(item.output or "null", room)
        sources += found
        results.append({"id": str(number), "status": "success", "result": value})
    failed = sum(result["status"] == "error" for result in results)
    value = {"total": len(items), "succeeded": len(items) - failed, "failed": failed, "items": results}
    return json.dumps({**value, "sources": sources} if sources else value, ensure_ascii=False)


def _value(output: str, room: int) -> tuple[Any, list[Any]]:
    """Return the value of an item's output, or its beginning if it is long, and the sources that it lists."""
    if len(output) > room:
        return {"note": f"Cut: the result has {len(output)} characters.", "cut_json": output[:room]}, []
    try:
        value = json.loads(output)
    except ValueError:
        return output, []
    if isinstance(value, dict) and isinstance(value.get("sources"), list):
        return {name: part for name, part in value.items() if name != "sources"}, value["sources"]
    return value, []
