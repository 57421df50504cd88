"""Runs one execution inside a tools worker's process and records what came of it."""

import json
import logging
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded
from django.db import InterfaceError, OperationalError, connection, transaction

from audit_app import services as audit
from audit_app.kernel import context, liveness
from tools_app import bell, catalogue, conf, facts
from tools_app.models import ToolExecution
from tools_app.transitions import move
from tools_app.types import ExecutionStatus, Tool, ToolContext, ToolError

logger = logging.getLogger(__name__)

# How long a finished result waits for a database that is away.
_RECORD_TRIES = 30
_RECORD_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Outcome:
    """What came of an execution: `output` (JSON text) when it completed, else `error`, in words for the model."""

    status: ExecutionStatus
    output: str | None = None
    error: str | None = None


def execute(execution_id: UUID) -> None:
    """Run a pending execution and record its result; nothing if it is not pending any more.

    Blocks until the tool returns, fails, or Celery's soft limit interrupts it. Owns its transactions. Run twice, the
    second finds nothing to do; a result that comes after the execution was given up is dropped.
    """
    row = _claim(execution_id)
    if row is None:
        return
    with context.bind(
        request_id=row.request_id, actor=row.actor, session_id=str(row.session_id), run_id=str(row.run_id)
    ):
        outcome = None
        try:
            facts.tell_started(row)
            outcome = _run(row)
            record(row, outcome)
        except SoftTimeLimitExceeded:  # it may strike anywhere, also while a result is being stored
            record(row, outcome or _timed_out(row))


def finish(row: ToolExecution, outcome: Outcome) -> bool:
    """Store the end of this attempt with its fact, and ring if it was the run's last open one. False: too late.

    Joins the caller's transaction, which must be `atomic`; `row` is the execution as it was claimed or last read.
    """
    if not move(row.id, outcome.status, attempt=row.attempts, output=outcome.output, error=outcome.error):
        return False
    row.refresh_from_db()
    audit.emit([facts.ended(row)])
    bell.ring_if_done(row)
    return True


def record(row: ToolExecution, outcome: Outcome) -> None:
    """Store the outcome of the attempt, waiting for a database that is away rather than losing what was done."""
    for tries_left in reversed(range(_RECORD_TRIES)):
        try:
            with transaction.atomic():
                if not finish(row, outcome):
                    logger.info("the result of execution %s came too late and was dropped", row.id)
            return
        except (OperationalError, InterfaceError):
            if not tries_left:
                raise
            logger.warning("the result of execution %s could not be stored, trying again", row.id, exc_info=True)
            connection.close()
            time.sleep(_RECORD_PAUSE_SECONDS)


def _claim(execution_id: UUID) -> ToolExecution | None:
    with transaction.atomic():
        if not move(execution_id, ExecutionStatus.RUNNING, owner=liveness.start("tools")):
            return None
        return ToolExecution.objects.get(id=execution_id)


def _run(row: ToolExecution) -> Outcome:
    tool = catalogue.find_tool(row.tool, row.agent_id)
    if not isinstance(tool, Tool):
        return Outcome(ExecutionStatus.FAILED, error=f"The tool {row.tool} is not available on this worker.")
    try:
        return Outcome(ExecutionStatus.COMPLETED, output=_as_text(tool.run(row.arguments, _context(row))))
    except SoftTimeLimitExceeded:
        raise
    except ToolError as error:
        return Outcome(ExecutionStatus.FAILED, error=_storable(str(error))[: conf.MAX_EVENT_CHARACTERS])
    except Exception:  # whatever a tool raises ends this call, not the worker; its details are for the log alone
        logger.exception("the tool %s failed in execution %s", row.tool, row.id)
        return Outcome(ExecutionStatus.FAILED, error=f"The tool {row.tool} failed unexpectedly. It may be faulty.")


def _timed_out(row: ToolExecution) -> Outcome:
    return Outcome(ExecutionStatus.TIMED_OUT, error=f"The call did not finish within {row.timeout_seconds} seconds.")


def _context(row: ToolExecution) -> ToolContext:
    effect_key = sha256(f"{row.run_id}:{row.step}:{row.call_index}".encode()).hexdigest()[:32]
    return ToolContext(
        execution_id=row.id, run_id=row.run_id, session_id=row.session_id, agent_id=row.agent_id, actor=row.actor,
        effect_key=effect_key, timeout_seconds=row.timeout_seconds,
    )  # fmt: skip


def _as_text(value: Any) -> str:
    """The value as JSON text that fits the column; cut, with a note for the model, when it is too long."""
    text = _storable(json.dumps(value, ensure_ascii=False, allow_nan=False))
    if len(text) <= conf.MAX_OUTPUT_CHARACTERS:
        return text
    note = f"Cut: the result has {len(text)} characters, of which this is the beginning. Ask for less."
    return json.dumps({"note": note, "cut_json": text[: conf.MAX_OUTPUT_CHARACTERS // 2]}, ensure_ascii=False)


def _storable(text: str) -> str:
    """Without what a database refuses in a text: NUL characters and half surrogate pairs."""
    return text.replace("\0", "").encode(errors="replace").decode()
