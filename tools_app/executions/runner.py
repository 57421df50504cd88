"""Runs one execution in a tools worker's process and stores the outcome."""

import json
import logging
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection, transaction

from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel import context, liveness, redact
from audit_app.kernel.database import is_away
from tools_app import catalogue, conf, schema
from tools_app.events import InjectionWarning
from tools_app.executions import batches, events, result_sources, transitions
from tools_app.injection import guard
from tools_app.models import ToolExecution
from tools_app.policy import emergency_stop
from tools_app.storage import result_pictures
from tools_app.types import (
    AskNow,
    BaseTool,
    ExecutionStatus,
    Reads,
    Report,
    Resumed,
    Tool,
    ToolContext,
    ToolError,
    view_of,
)
from tools_app.types.pictures import Picture

logger = logging.getLogger(__name__)

# Retries of storing a result while the database is unavailable.
_RECORD_TRIES = 30
_RECORD_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Outcome:
    """Outcome of an execution: `output` (JSON text) if it completed, else `error` for the model.

    origins: what the output brings into the run, if only the output determines it; one a line.
    report: the event that is stored with it, if any.
    pictures: those that it shows.
    The other fields are explained at `guard.Screened`.
    """

    status: ExecutionStatus
    output: str | None = None
    error: str | None = None
    withheld: str = ""
    suspicion: int = 0
    warning: InjectionWarning | None = None
    origins: str = ""
    report: Report | None = None
    pictures: tuple[Picture, ...] = ()

    def columns(self) -> dict[str, Any]:
        """Return the columns of the execution that the outcome sets."""
        columns: dict[str, Any] = {"output": self.output, "error": self.error}
        if self.warning:
            columns |= {"withheld": self.withheld, "suspicion": self.suspicion}
        if self.origins:
            columns["origins"] = self.origins
        if self.pictures:
            columns["pictures"] = [picture.as_json() for picture in self.pictures]
        return columns


def execute(execution_id: UUID) -> None:
    """Run a pending execution and store the result. Does nothing if it is no longer pending.

    Blocks until the tool returns, fails, or Celery's soft limit interrupts it. Owns its transactions. Idempotent; a
    result that arrives after the execution was ended elsewhere is dropped.
    """
    row = claim(execution_id, liveness.start("tools"))
    if row is None:
        return
    with bound(row):
        outcome = None
        try:
            events.notify_started(row)
            outcome = _run(row)
            record(row, outcome)
        except SoftTimeLimitExceeded:  # may be raised anywhere, even while a result is being stored
            record(row, outcome or timed_out(row))


def bound(row: ToolExecution) -> AbstractContextManager[None]:
    """Bind the run, the session and the actor of an execution for the block."""
    return context.bind(
        request_id=row.request_id, actor=row.actor, session_id=str(row.session_id), run_id=str(row.run_id)
    )


def claim(execution_id: UUID, owner: UUID) -> ToolExecution | None:
    """Claim a pending execution for this process and audit the start. Owns its transaction.

    Returns None if it is no longer pending, or its agent is stopped.
    """
    with transaction.atomic():
        row = transitions.claim(execution_id, owner)
        if row is None:
            return None
        if emergency_stop.why_stopped(row.agent_id):
            transaction.set_rollback(True)  # its run is about to be ended
            return None
        events.record_started(row)
        return row


def claim_all(execution_ids: Sequence[UUID], owner: UUID) -> list[ToolExecution | None]:
    """Claim pending executions like `claim`, in one transaction. Return the row, or None, for each."""
    with transaction.atomic():
        # In one order, in which a cancellation locks the rows, too.
        claimed = {each: transitions.claim(each, owner) for each in sorted(set(execution_ids))}
        if not emergency_stop.is_any_stopped():
            for row in filter(None, claimed.values()):
                events.record_started(row)
            return [claimed.pop(each, None) for each in execution_ids]
        transaction.set_rollback(True)
    return [claim(each, owner) for each in execution_ids]


def start_here(row: ToolExecution) -> bool:
    """Start a pending call that no process runs, in the caller's transaction, and audit the start.

    Return False if it is no longer pending.
    """
    if not transitions.move(row.id, ExecutionStatus.RUNNING):
        return False
    row.refresh_from_db(fields=["attempts"])
    events.record_started(row)
    return True


def finish(row: ToolExecution, outcome: Outcome) -> bool:
    """Store the end of this attempt and its events, and nudge if it was the run's last open execution.

    row: as it was claimed or last read.
    Joins the caller's transaction, which must be `atomic`. Returns whether the attempt was still current.
    """
    return finish_all([(row, outcome)]) == 1


def finish_all(ends: Sequence[tuple[ToolExecution, Outcome]]) -> int:
    """Store the ends of attempts like `finish`, and return the number of those that were current.

    ends: of calls of one run, of which no item of a batch is stored with others.
    """
    ended: dict[UUID, ToolExecution] = {}
    for row, outcome in sorted(ends, key=lambda end: end[0].id):  # the order in which a cancellation locks them
        batches.lock(row)
        if stored := transitions.end(row, outcome.status, **outcome.columns()):
            ended[row.id] = stored
    if ended:
        audit.emit([event for row, outcome in ends if row.id in ended for event in _events_of(ended[row.id], outcome)])
        batches.item_ended(next(iter(ended.values())))
    return len(ended)


def _events_of(ended: ToolExecution, outcome: Outcome) -> list[NewEvent]:
    warned = [events.warned(ended, outcome.warning)] if outcome.warning else []
    reported = [events.reported(ended, outcome.report)] if outcome.report else []
    return [*warned, *batches.ended(ended), *reported]


def record(row: ToolExecution, outcome: Outcome) -> None:
    """Store the outcome of the attempt, retrying while the database is unavailable."""
    for tries_left in reversed(range(_RECORD_TRIES)):
        try:
            record_once(row, outcome)
            return
        except Exception as error:
            if not (tries_left and is_away(error)):
                raise
            logger.warning("the result of execution %s could not be stored, retrying", row.id, exc_info=True)
            connection.close()
            time.sleep(_RECORD_PAUSE_SECONDS)


def record_once(row: ToolExecution, outcome: Outcome) -> None:
    """Store the outcome of the attempt, unless the attempt was ended elsewhere. Owns its transaction."""
    with transaction.atomic():
        if not finish(row, outcome):
            logger.info("the result of execution %s was too late and was dropped", row.id)


def record_all(ends: Sequence[tuple[ToolExecution, Outcome]]) -> None:
    """Store the outcomes of attempts like `record_once`, in one transaction. ends: see `finish_all`."""
    with transaction.atomic():
        if late := len(ends) - finish_all(ends):
            logger.info("%d results of run %s were too late and were dropped", late, ends[0][0].run_id)


def _run(row: ToolExecution) -> Outcome:
    tool = catalogue.find_tool(row.tool, row.agent_id)
    if not isinstance(tool, Tool):
        return Outcome(ExecutionStatus.FAILED, error=f"The tool {row.tool} is not available on this worker.")
    process = os.getpid()
    try:
        context = context_of(row)
        return shown(row, tool, tool.run(row.arguments, context), context)
    except SoftTimeLimitExceeded:
        raise
    except Exception as error:  # must not end the worker
        return failed(row, error)
    finally:
        if os.getpid() != process:
            os._exit(1)  # the tool forked: the child must not continue as a second worker


def shown(row: ToolExecution, tool: BaseTool, value: Any, context: ToolContext) -> Outcome:
    """Return the outcome for a tool's value with the pictures that the tool has added, which are stored here."""
    if not context.pictures:
        return completed_by(tool, value)
    owner = result_pictures.Owner(row.session_id, row.agent_id, row.tool, tuple(row.origins.splitlines()))
    kept, described = result_pictures.keep(owner, context.pictures)
    fields = value if isinstance(value, dict) else {"result": value}
    outcome = completed_by(tool, {**fields, "pictures": described})
    return outcome if outcome.withheld else replace(outcome, pictures=kept)


def completed_by(tool: BaseTool, value: Any) -> Outcome:
    """Return the outcome for a tool's value, with origins and event. Raises if it is not as declared."""
    # The system prompt refers the model to these instructions, so they are not screened.
    outcome = completed(value, is_trusted=bool(tool.spec.prompt_line))
    # Tools of workstreams name no origins: what their runs have read is that of the same session.
    names_origins = tool.spec.reads is Reads.STORED and (isinstance(tool, Tool) or "origins" in value)
    origins = "\n".join(value["origins"]) if names_origins else ""
    return replace(outcome, origins=origins, report=None if outcome.withheld else tool.report_of(value))


def completed(value: Any, *, is_trusted: bool = False) -> Outcome:
    """Return the outcome for a tool's value. is_trusted: do not screen it. Raises if it is not a JSON value."""
    text = _as_text(result_sources.stamped(value))
    screened = guard.Screened(text) if is_trusted else guard.screen(text)
    given: dict[str, Any] = {"status": ExecutionStatus.COMPLETED, "output": screened.text, "error": None}
    return view_of(Outcome, screened, **given, origins="", report=None, pictures=())


def failed(row: ToolExecution, error: BaseException) -> Outcome:
    """Return the outcome for an exception. Details of a tool's fault are logged only."""
    if isinstance(error, ToolError):
        screened = guard.screen(_storable(str(error))[: conf.MAX_EVENT_CHARACTERS])
        given: dict[str, Any] = {"status": ExecutionStatus.FAILED, "output": None, "error": screened.text}
        return view_of(Outcome, screened, **given, origins="", report=None, pictures=())
    logger.error("the tool %s failed in execution %s", row.tool, row.id, exc_info=error)
    return Outcome(ExecutionStatus.FAILED, error=f"The tool {row.tool} failed unexpectedly. It may be faulty.")


def timed_out(row: ToolExecution) -> Outcome:
    """Return the outcome of a call that exceeded the time limit."""
    return Outcome(ExecutionStatus.TIMED_OUT, error=f"The call did not finish within {row.timeout_seconds} seconds.")


def context_of(row: ToolExecution, *, resumed: Resumed | None = None, ask_now: AskNow | None = None) -> ToolContext:
    effect_key = sha256(f"{row.run_id}:{row.step}:{row.call_index}".encode()).hexdigest()[:32]
    given: dict[str, Any] = {"execution_id": row.id, "effect_key": effect_key, "resumed": resumed, "ask_now": ask_now}
    return view_of(ToolContext, row, **given, pictures=[])


def _as_text(value: Any) -> str:
    """Return the value as JSON text that fits the column; truncated, with a note for the model, if it is too long."""
    text = _storable(schema.without_nul(json.dumps(value, ensure_ascii=False, allow_nan=False)))
    if len(text) <= conf.MAX_OUTPUT_CHARACTERS:
        return text
    note = f"Cut: the result has {len(text)} characters, of which this is the beginning. Ask for less."
    return json.dumps({"note": note, "cut_json": text[: conf.MAX_OUTPUT_CHARACTERS // 2]}, ensure_ascii=False)


def _storable(text: str) -> str:
    """Return the text without the secrets that this process has used, NUL characters and unpaired surrogates."""
    return redact.without_remembered(text).replace("\0", "").encode(errors="replace").decode()
