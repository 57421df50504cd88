"""Nudges of the tools workers, and kills of their processes. The rows are authoritative: every message may be lost."""

from collections.abc import Sequence

from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.nudges import nudge, revoke
from tools_app import conf, selectors
from tools_app.models import ToolExecution

EXECUTE = "tools.execute"
EXECUTE_HERE = "tools.execute_here"


def nudge_worker(row: ToolExecution) -> None:
    """After commit, nudge a worker to run this execution under its time limits. Idempotent."""
    if row.runs_in_loop:
        nudge(EXECUTE_HERE, str(row.id), queue=conf.LOOP_QUEUE)
        return
    nudge(
        EXECUTE,
        str(row.id),
        queue=conf.QUEUE,
        task_id=str(row.id),
        soft_time_limit=row.timeout_seconds,
        time_limit=row.timeout_seconds + conf.GRACE_SECONDS,
    )


def nudge_if_done(row: ToolExecution) -> None:
    """After commit, nudge the planner of the row if its run has no open execution left.

    Call it after `emit`, which locks the timeline head: so the last two executions of a run commit one after the other,
    and the second one sees the end of the first.
    """
    if not selectors.has_open(row.run_id):
        nudge(row.on_done, str(row.run_id), queue=row.on_done_queue)


def stop(rows: Sequence[ToolExecution]) -> None:
    """After commit, kill the processes that run these executions. The rows must be terminal by then.

    Calls on an event loop share its process: the loop cancels them within half a second.
    """
    ids = [str(row.id) for row in rows if not row.runs_in_loop]
    if ids:
        after_commit(revoke, ids)
