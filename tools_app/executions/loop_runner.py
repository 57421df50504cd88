"""Runs the calls of async tools on the event loop of a runs worker, with limits of time and concurrency.

As for the tools workers, the rows are authoritative: a process that dies leaves running rows, which the sweeper handles
by their effect class.
"""

import asyncio
import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.conf import settings

from audit_app.kernel import valkey
from audit_app.kernel.database import CallGroups, in_db, repeat_until_stored
from tools_app import catalogue, conf, selectors
from tools_app.executions import call_questions, events, runner
from tools_app.executions.runner import Outcome
from tools_app.executions.sweeper import release
from tools_app.models import ToolExecution
from tools_app.types import AsksPerson, AsyncTool, Resumed, ToolError

logger = logging.getLogger(__name__)

_END_SECONDS = 2.0


@dataclass
class _Call:
    """A running call. given_up: its row was ended elsewhere, so its result is dropped."""

    row: ToolExecution
    task: asyncio.Task[Outcome]
    given_up: bool = False


class LoopExecutions:
    """The calls of one process. All methods but `nudge` must be called on its event loop."""

    def __init__(self, owner: UUID) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._work: set[asyncio.Task[bool]] = set()
        self._calls: dict[tuple[UUID, int], _Call] = {}  # by execution and attempt
        self._draining = False
        self._time_is_up = False  # of the drain: running calls have to be released
        self._claims = CallGroups(partial(_claim_all, owner))
        self._ends = CallGroups(_store_all, key=_group_of)

    def nudge(self, execution_id: UUID) -> None:
        """Offer a call; thread-safe. Ignored while all slots are taken: a freed slot looks for waiting calls."""
        self._loop.call_soon_threadsafe(self._offer, execution_id)

    async def look_after(self) -> None:
        """Cancel the tasks of calls whose executions were ended elsewhere. Called about twice a second."""
        seen = list(self._calls.items())  # before the query, which may miss a call that starts meanwhile
        if not seen:
            return
        running = await in_db(selectors.list_running, self._owner)
        for key, call in seen:
            if key not in running:
                call.given_up = True
                call.task.cancel()

    async def drain(self, seconds: float) -> None:
        """Accept no new calls, let running ones end within the time, and release the others by effect class."""
        self._draining = True
        if self._work:
            await asyncio.wait(self._work, timeout=seconds)
        self._time_is_up = True
        for call in list(self._calls.values()):
            call.task.cancel()
        if self._work:
            await asyncio.wait(self._work, timeout=_END_SECONDS)

    def _offer(self, execution_id: UUID | None = None) -> None:
        if self._draining or len(self._work) >= settings.KOMAND_LOOP_TOOL_SLOTS:
            return
        task = self._loop.create_task(self._make_call(execution_id))
        self._work.add(task)
        task.add_done_callback(self._freed)

    def _freed(self, task: asyncio.Task[bool]) -> None:
        was_full = len(self._work) >= settings.KOMAND_LOOP_TOOL_SLOTS
        self._work.discard(task)
        if was_full and not task.cancelled() and task.result():
            self._offer()  # nudges may have been ignored: take the call that has waited longest

    async def _make_call(self, execution_id: UUID | None) -> bool:
        """Claim and run a call. Returns whether to look for another one."""
        try:
            claiming = self._claims.call(execution_id) if execution_id else in_db(_claim_next, self._owner)
            claimed = await claiming
            if claimed is None:
                return execution_id is not None
            with runner.bound(claimed.row):
                await self._carry_out(claimed)
        except Exception:
            logger.exception("call %s failed unexpectedly", execution_id)
        return True

    async def _carry_out(self, claimed: "_Claimed") -> None:
        row = claimed.row
        call = self._calls[row.id, row.attempts] = _Call(row, self._loop.create_task(_run(claimed)))
        try:
            outcome = await self._outcome_of(call)
            if outcome is not None:
                store = partial(self._ends.call, (row, outcome))  # retried while the database is unavailable
                await repeat_until_stored(store, gives_up=lambda: self._time_is_up)
            elif not call.given_up:
                await in_db(release, row)
        finally:
            del self._calls[row.id, row.attempts]

    async def _outcome_of(self, call: _Call) -> Outcome | AsksPerson | None:
        """Return the outcome, or what the call asks a person; None if it was interrupted from outside."""
        row, task = call.row, call.task
        done, _ = await asyncio.wait({task}, timeout=row.timeout_seconds)
        if not done:
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=conf.GRACE_SECONDS)
            if not done:
                logger.error("the tool %s ignores cancellation, execution %s", row.tool, row.id)
            return runner.timed_out(row)
        if call.given_up or (self._time_is_up and task.cancelled()):
            return None
        if task.cancelled():
            return runner.failed(row, asyncio.CancelledError())
        error = task.exception()
        if isinstance(error, AsksPerson):
            return error
        return task.result() if error is None else runner.failed(row, error)


def open_here(owner: UUID) -> LoopExecutions:
    """Let this process run calls on the running event loop, as `owner` (see audit_app.kernel.liveness)."""
    global _here
    _here = LoopExecutions(owner)
    return _here


def nudge(execution_id: UUID) -> None:
    """Offer a call to this process. Ignored if it runs none. Thread-safe."""
    if _here:
        _here.nudge(execution_id)


_here: LoopExecutions | None = None


@dataclass(frozen=True)
class _Claimed:
    """A claimed call and its tool, or the problem of finding it. resumed: see `ToolContext`."""

    row: ToolExecution
    tool: object = None
    resumed: Resumed | None = None
    problem: Exception | None = None


def _claim_next(owner: UUID) -> _Claimed | None:
    """Claim the execution that has waited longest for a loop."""
    waiting = selectors.find_waiting_for_loop()
    return _claim_all(owner, [waiting])[0] if waiting else None


def _claim_all(owner: UUID, execution_ids: Sequence[UUID]) -> list[_Claimed | None]:
    rows = runner.claim_all(execution_ids, owner)
    with valkey.in_one_write():
        return [_begin(row) if row else None for row in rows]


def _begin(row: ToolExecution) -> _Claimed:
    try:
        events.notify_started(row)
        resumed = call_questions.resumed_of(row) if row.attempts > 1 else None
        return _Claimed(row, catalogue.find_tool(row.tool, row.agent_id), resumed)
    except Exception as problem:  # it is the outcome of this call, not of those that were claimed with it
        return _Claimed(row, problem=problem)


def _store_all(ends: Sequence[tuple[ToolExecution, Outcome | AsksPerson]]) -> list[None]:
    with runner.bound(ends[0][0]):
        stored = [(row, outcome) for row, outcome in ends if isinstance(outcome, Outcome)]
        for row, asked in ends:
            if isinstance(asked, AsksPerson):
                call_questions.park(row, asked)
        if stored:
            runner.record_all(stored)
    return [None] * len(ends)


def _group_of(end: tuple[ToolExecution, Outcome | AsksPerson]) -> Hashable:
    """Return the key of those that may be stored together: results of one run, but no questions and batches."""
    row, outcome = end
    is_alone = isinstance(outcome, AsksPerson) or row.batch_id
    return row.id if is_alone else (row.run_id, row.request_id)


async def _run(claimed: _Claimed) -> Outcome:
    row, tool = claimed.row, claimed.tool
    if claimed.problem:
        raise claimed.problem
    if not isinstance(tool, AsyncTool):
        raise ToolError(f"The tool {row.tool} is no longer available.")
    context = runner.context_of(row, resumed=claimed.resumed, ask_now=partial(call_questions.ask_now, row))
    value = await tool.run(row.arguments, context)
    if context.pictures:
        return await in_db(runner.shown, row, tool, value, context)
    return runner.completed_by(tool, value)
