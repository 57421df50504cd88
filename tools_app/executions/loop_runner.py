"""Makes the calls of LoopTools on the event loop of a runs worker: claimed, limited in time and number, recorded.

The rows are the truth, as for the tools workers: a process that dies here leaves running rows, which the sweeper treats
by their effect class.
"""

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from audit_app.kernel import context
from audit_app.kernel.database import in_db
from audit_app.kernel.durable_writes import run_until_stored
from tools_app import catalogue, conf, selectors
from tools_app.executions import events, runner
from tools_app.executions.runner import Outcome
from tools_app.executions.sweeper import release
from tools_app.models import ToolExecution
from tools_app.types import AsyncTool, ToolError

logger = logging.getLogger(__name__)

_END_SECONDS = 2.0


@dataclass
class _Call:
    """One call under way. given_up: someone else has ended its row, so its result is nobody's."""

    row: ToolExecution
    task: asyncio.Task[object]
    given_up: bool = False


class LoopExecutions:
    """The calls of one process. All methods belong to its event loop, but `nudge`, which any thread may call."""

    def __init__(self, owner: UUID) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._work: set[asyncio.Task[bool]] = set()
        self._calls: dict[UUID, _Call] = {}
        self._draining = False
        self._time_is_up = False  # of the drain: what still runs has to be released

    def nudge(self, execution_id: UUID) -> None:
        """There may be a call to make. Ignored when all slots are taken: a freed one looks for itself."""
        self._loop.call_soon_threadsafe(self._offer, execution_id)

    async def look_after(self) -> None:
        """End the calls whose executions were cancelled or given up. Called about twice a second."""
        seen = list(self._calls.values())  # before the look: a call that begins meanwhile may not be in it
        if not seen:
            return
        running = await in_db(selectors.list_running, self._owner)
        for call in seen:
            if (call.row.id, call.row.attempts) not in running:
                call.given_up = True
                call.task.cancel()

    async def drain(self, seconds: float) -> None:
        """Take nothing new; let calls end within the time; give back the rest, each by its effect class."""
        self._draining = True
        if self._work:
            await asyncio.wait(self._work, timeout=seconds)
        self._time_is_up = True
        for call in list(self._calls.values()):
            call.task.cancel()
        if self._work:
            await asyncio.wait(self._work, timeout=_END_SECONDS)

    def _offer(self, execution_id: UUID | None = None) -> None:
        if self._draining or len(self._work) >= conf.loop_slots():
            return
        task = self._loop.create_task(self._make_call(execution_id))
        self._work.add(task)
        task.add_done_callback(self._freed)

    def _freed(self, task: asyncio.Task[bool]) -> None:
        was_full = len(self._work) >= conf.loop_slots()
        self._work.discard(task)
        if was_full and not task.cancelled() and task.result():
            self._offer()  # a bell may have been ignored: this slot takes what has waited longest

    async def _make_call(self, execution_id: UUID | None) -> bool:
        """Whether it is worth looking for a further one."""
        try:
            row = await in_db(_claim, execution_id, self._owner)
            if row is None:
                return execution_id is not None
            with context.bind(
                request_id=row.request_id, actor=row.actor, session_id=str(row.session_id), run_id=str(row.run_id)
            ):
                await self._carry_out(row)
        except Exception:
            logger.exception("making call %s broke off", execution_id)
        return True

    async def _carry_out(self, row: ToolExecution) -> None:
        call = self._calls[row.id] = _Call(row, self._loop.create_task(_run(row)))
        try:
            outcome = await self._outcome_of(call)
            if outcome is not None:
                await self._record(row, outcome)
            elif not call.given_up:
                await in_db(release, row)
        finally:
            del self._calls[row.id]

    async def _outcome_of(self, call: _Call) -> Outcome | None:
        """What the call comes to; None when it was cut short from outside."""
        row, task = call.row, call.task
        done, _ = await asyncio.wait({task}, timeout=row.timeout_seconds)
        if not done:
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=conf.GRACE_SECONDS)
            if not done:
                logger.error("the tool %s does not end when it is cancelled, execution %s", row.tool, row.id)
            return runner.timed_out(row)
        if call.given_up or (self._time_is_up and task.cancelled()):
            return None
        if task.cancelled():
            return runner.failed(row, asyncio.CancelledError())
        error = task.exception()
        if error is not None:
            return runner.failed(row, error)
        try:
            return runner.completed(task.result())
        except Exception as problem:  # the tool returned what is no JSON value
            return runner.failed(row, problem)

    async def _record(self, row: ToolExecution, outcome: Outcome) -> None:
        """Store the outcome, waiting for a database that is away rather than losing what was done."""
        await run_until_stored(partial(runner.record_once, row, outcome), gives_up=lambda: self._time_is_up)


def open_here(owner: UUID) -> LoopExecutions:
    """Let this process make calls on the loop that is running, as `owner` (kernel/liveness)."""
    global _here
    _here = LoopExecutions(owner)
    return _here


def nudge(execution_id: UUID) -> None:
    """There may be a call for this process to make; nothing when it makes none. From any thread."""
    if _here:
        _here.nudge(execution_id)


_here: LoopExecutions | None = None


def _claim(execution_id: UUID | None, owner: UUID) -> ToolExecution | None:
    """The execution, or the one that has waited longest for a loop."""
    wanted = execution_id or selectors.find_waiting_for_loop()
    return runner.claim(wanted, owner) if wanted else None


async def _run(row: ToolExecution) -> object:
    tool = await in_db(_begin, row)
    if not isinstance(tool, AsyncTool):
        raise ToolError(f"The tool {row.tool} is not available any more.")
    return await tool.run(row.arguments, runner.context_of(row))


def _begin(row: ToolExecution) -> object:
    events.notify_started(row)
    return catalogue.find_tool(row.tool, row.agent_id)
