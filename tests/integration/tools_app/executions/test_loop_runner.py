"""Calls on an event loop: run once, limited, cancelled from elsewhere, released by effect class."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings

from audit_app.kernel.liveness import Observer
from audit_app.models import AuditEntry, Event
from tests.support.engine import until
from tools_app import conf, selectors, services
from tools_app.events import PROGRESS_REPORTED
from tools_app.executions import loop_runner, runner
from tools_app.executions.runner import Outcome
from tools_app.models import ToolExecution
from tools_app.policy import emergency_stop
from tools_app.registry import tools
from tools_app.types import AsyncTool, Effect, ExecutionStatus, Reads, Risk, ToolError, ToolSpec

pytestmark = [pytest.mark.usefixtures("world"), pytest.mark.one_database]


class Loop:
    """A runs worker's loop without its runs."""

    def __init__(self, owner: UUID) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.calls = self._do(self._open(owner)).result()
        self._looking = self._do(self._look())

    async def _open(self, owner: UUID) -> loop_runner.LoopExecutions:
        return loop_runner.open_here(owner)

    async def _look(self) -> None:
        while True:
            await self.calls.look_after()
            await asyncio.sleep(0.02)  # as the worker, more often

    def _do(self, work: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def pause(self) -> None:
        """Stop looking after the calls."""
        self._looking.cancel()

    def look_once(self) -> None:
        self._do(self.calls.look_after()).result()

    def offer_together(self, executions: Any) -> None:
        """Offer calls in one turn of the loop."""

        async def offer() -> None:
            for execution in executions:
                self.calls._offer(execution.id)

        self._do(offer()).result()

    def drain(self, seconds: float = 0.0) -> None:
        self._do(self.calls.drain(seconds)).result()

    def close(self) -> None:
        self._looking.cancel()
        self.drain()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


@pytest.fixture
def loop(process: UUID, world: None) -> Iterator[Loop]:
    loop = Loop(process)
    yield loop
    loop.close()


class Wait(AsyncTool):
    """A tool that awaits a coroutine function."""

    def __init__(self, function: Callable[..., Any], effect: Effect, seconds: int) -> None:
        self.spec = ToolSpec("wait", "Waits.", {"type": "object"}, effect, Risk.LOW, seconds)
        self.run = function  # type: ignore[method-assign]
        self.begun = 0

    async def run(self, arguments: dict[str, Any], context: Any) -> Any:
        """Replaced by each instance."""


@pytest.fixture
def make() -> Iterator[Callable[..., Wait]]:
    with ExitStack() as overrides:

        def make_tool(function: Callable[..., Any], effect: Effect = Effect.ONCE, seconds: int = 10) -> Wait:
            async def run(arguments: dict[str, Any], context: Any) -> Any:
                tool.begun += 1
                return await function(arguments, context)

            tool = Wait(run, effect, seconds)
            overrides.enter_context(tools.override(tool))
            return tool

        yield make_tool


async def for_ever(arguments: Any, context: Any) -> None:
    await asyncio.Event().wait()


class Undertaker(Observer):
    """An observer to which every process is dead."""

    def dead(self, owners: Any) -> set[UUID]:
        return set(owners)


def ended(execution_id: UUID) -> Any:
    return until(lambda: (found := selectors.get_execution(execution_id)).status.is_terminal and found)


def test_a_result_is_stored_emitted_and_nudged(plan, loop, make, nudges, passing) -> None:
    async def answer(arguments: Any, context: Any) -> Any:
        return {"agent": context.agent_id}

    make(answer)
    (execution,) = plan(("wait", "{}"))
    assert [(task, options["queue"]) for task, _, options in nudges] == [("tools.execute_here", "runs")]
    loop.calls.nudge(execution.id)
    done = ended(execution.id)
    assert (done.status, done.output) == (ExecutionStatus.COMPLETED, '{"agent": "default"}')
    until(lambda: nudges.of("test.done") == [str(execution.run_id)])  # rung after the commit that was just seen
    assert [event.type.name for event in passing] == ["tool.started"]
    assert Event.objects.get(type="tool.completed").payload["duration_ms"] >= 0
    assert AuditEntry.objects.filter(action="ToolExecutionCompleted", actor="user:7").count() == 1


def test_the_origins_and_the_event_of_a_result_are_stored(plan, loop, make) -> None:
    async def answer(arguments: Any, context: Any) -> Any:
        return {"text": "Half.", "percent": 50, "phase": "", "origins": ["page:example.org", "mcp:wiki"]}

    tool = make(answer)
    tool.spec = replace(tool.spec, reads=Reads.STORED)
    tool.report_of = lambda value: (PROGRESS_REPORTED, {"text": value["text"], "percent": 50, "phase": ""})
    (execution,) = plan(("wait", "{}"))
    loop.calls.nudge(execution.id)
    assert ended(execution.id).origins == ("page:example.org", "mcp:wiki")
    assert Event.objects.get(type="progress.reported").payload["text"] == "Half."


def test_an_attempt_that_a_later_one_replaces_in_the_process_is_cancelled(plan, loop, make) -> None:
    cancelled: list[int] = []

    async def wait(arguments: Any, context: Any) -> None:
        attempt = tool.begun
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(attempt)
            raise

    tool = make(wait, Effect.READ)
    loop.pause()
    (execution,) = plan(("wait", "{}"))
    loop.calls.nudge(execution.id)
    until(lambda: tool.begun == 1)
    services.sweep(Undertaker())
    loop.calls.nudge(execution.id)
    until(lambda: tool.begun == 2)
    loop.look_once()
    until(lambda: cancelled)
    loop.drain()
    assert cancelled == [1, 2]
    assert selectors.get_execution(execution.id).status == ExecutionStatus.PENDING


def test_a_call_is_made_once_however_often_it_is_nudged(plan, loop, make) -> None:
    async def answer(arguments: Any, context: Any) -> str:
        return "done"

    tool = make(answer)
    (execution,) = plan(("wait", "{}"))
    for _ in range(5):
        loop_runner.nudge(execution.id)
    ended(execution.id)
    loop.calls.nudge(uuid4())
    loop.drain(1)
    assert tool.begun == 1


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (ToolError("No such page."), "No such page."),
        (RuntimeError("password=hunter2"), "The tool wait failed unexpectedly. It may be faulty."),
        (asyncio.CancelledError(), "The tool wait failed unexpectedly. It may be faulty."),
    ],
)
def test_a_fault_becomes_an_error_for_the_model(plan, loop, make, problem, error) -> None:
    async def fail(arguments: Any, context: Any) -> None:
        raise problem

    make(fail)
    (execution,) = plan(("wait", "{}"))
    loop.calls.nudge(execution.id)
    done = ended(execution.id)
    assert (done.status, done.error) == (ExecutionStatus.FAILED, error)


def test_a_result_that_is_no_json_is_a_fault_of_the_tool(plan, loop, make) -> None:
    async def answer(arguments: Any, context: Any) -> object:
        return object()

    make(answer)
    (execution,) = plan(("wait", "{}"))
    loop.calls.nudge(execution.id)
    assert ended(execution.id).status is ExecutionStatus.FAILED


def test_a_call_past_its_time_ends_though_it_does_not_want_to(plan, loop, make, monkeypatch) -> None:
    monkeypatch.setattr(conf, "GRACE_SECONDS", 0.05)

    async def refuse(arguments: Any, context: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(1)  # longer than the grace

    make(refuse, seconds=1)
    (execution,) = plan(("wait", "{}"))
    loop.calls.nudge(execution.id)
    done = ended(execution.id)
    assert (done.status, done.error) == (ExecutionStatus.TIMED_OUT, "The call did not finish within 1 seconds.")


def test_a_call_that_was_cancelled_elsewhere_is_ended_here(plan, loop, make, stopped) -> None:
    gone = threading.Event()

    async def wait(arguments: Any, context: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    tool = make(wait)
    (execution,) = plan(("wait", "{}"))
    loop.calls.nudge(execution.id)
    until(lambda: tool.begun)
    assert services.cancel_execution(execution.id)
    assert gone.wait(30)
    assert selectors.get_execution(execution.id).status is ExecutionStatus.CANCELLED
    assert stopped == [], "the process of a loop must not be killed for one call"


@pytest.mark.parametrize(
    ("effect", "status"), [(Effect.READ, "Pending"), (Effect.KEYED, "Pending"), (Effect.ONCE, "Unknown")]
)
def test_a_drain_gives_back_what_does_not_end(plan, loop, make, nudges, effect, status) -> None:
    tool = make(for_ever, effect)
    (execution,) = plan(("wait", "{}"))
    loop.calls.nudge(execution.id)
    until(lambda: tool.begun)
    loop.drain(0.01)
    row = ToolExecution.objects.get(pk=execution.id)
    assert (row.status, row.owner) == (status, None)
    assert nudges.of("tools.execute_here") == [str(execution.id)] * (2 if status == "Pending" else 1)


def test_a_drain_waits_for_a_call_that_ends_in_time(plan, loop, make) -> None:
    going = threading.Event()

    async def answer(arguments: Any, context: Any) -> str:
        going.set()
        await asyncio.sleep(0.1)  # less than the drain waits
        return "just in time"

    make(answer)
    (execution,) = plan(("wait", "{}"))
    loop.calls.nudge(execution.id)
    assert going.wait(30)
    loop.drain(30)
    assert selectors.get_execution(execution.id).output == '"just in time"'


def test_a_freed_slot_takes_the_call_that_was_not_heard(plan, loop, make, monkeypatch) -> None:
    monkeypatch.setattr(settings, "KOMAND_LOOP_TOOL_SLOTS", 1)
    free = threading.Event()

    async def answer(arguments: Any, context: Any) -> str:
        await asyncio.to_thread(free.wait, 30)
        return "done"

    tool = make(answer)
    first, second = plan(("wait", "{}"), ("wait", "{}"))
    loop.calls.nudge(first.id)
    until(lambda: tool.begun)
    loop.calls.nudge(second.id)
    free.set()
    assert ended(second.id).output == '"done"'


def test_a_dead_process_leaves_its_calls_to_the_sweeper(plan, make, nudges, process) -> None:
    make(for_ever, Effect.READ)
    (again,) = plan(("wait", "{}"))
    make(for_ever, Effect.ONCE)
    (once,) = plan(("wait", "{}"))
    for execution in (again, once):
        assert runner.claim(execution.id, process)

    services.sweep(Undertaker())
    statuses = [selectors.get_execution(execution.id).status for execution in (again, once)]
    assert statuses == [ExecutionStatus.PENDING, ExecutionStatus.UNKNOWN]
    assert nudges.of("tools.execute_here").count(str(again.id)) == 2


def test_calls_that_come_together_are_claimed_and_stored_together(plan, loop, make, nudges, monkeypatch) -> None:
    sizes: dict[str, list[int]] = {"claim_all": [], "record_all": []}

    def counted(name: str) -> Any:
        real = getattr(runner, name)

        def count(items: Any, *rest: Any) -> Any:
            sizes[name].append(len(items))
            return real(items, *rest)

        return count

    for name in sizes:
        monkeypatch.setattr(runner, name, counted(name))
    begun: list[str] = []
    go_on = asyncio.Event()

    async def answer(arguments: Any, context: Any) -> str:
        begun.append(arguments["name"])
        if len(begun) == 3:
            go_on.set()
        await go_on.wait()
        if arguments["name"] == "b":
            raise ToolError("No such page.")
        return arguments["name"]

    make(answer)
    executions = plan(*(("wait", f'{{"name": "{name}"}}') for name in "abc"))
    loop.offer_together(executions)
    results = [(done.status, done.output or done.error) for done in map(ended, (each.id for each in executions))]
    assert results == [
        (ExecutionStatus.COMPLETED, '"a"'),
        (ExecutionStatus.FAILED, "No such page."),
        (ExecutionStatus.COMPLETED, '"c"'),
    ]
    assert sizes == {"claim_all": [3], "record_all": [3]}
    until(lambda: nudges.of("test.done") == [str(executions[0].run_id)])
    stored = Event.objects.filter(type__in=["tool.completed", "tool.failed"]).order_by("seq")
    assert sorted(event.payload["execution_id"] for event in stored) == sorted(str(each.id) for each in executions)
    assert AuditEntry.objects.filter(action="ToolExecutionStarted").count() == 3


def test_the_stop_of_one_agent_leaves_the_calls_of_others(plan, make, process) -> None:
    make(for_ever)
    first, second = plan(("wait", "{}"), ("wait", "{}"))
    ToolExecution.objects.filter(pk=second.id).update(agent_id="other")
    emergency_stop.stop("other", reason="Fire drill.")
    claimed = runner.claim_all([second.id, first.id, uuid4(), first.id], process)
    assert [row and row.id for row in claimed] == [None, first.id, None, None]
    assert selectors.get_execution(second.id).status is ExecutionStatus.PENDING


def test_results_of_calls_that_were_cancelled_meanwhile_are_dropped_alone(plan, make, process) -> None:
    make(for_ever)
    executions = plan(("wait", "{}"), ("wait", "{}"))
    rows = [runner.claim(each.id, process) for each in executions]
    assert services.cancel_execution(executions[0].id)
    runner.record_all([(row, Outcome(ExecutionStatus.COMPLETED, output='"late"')) for row in rows])
    statuses = [selectors.get_execution(each.id).status for each in executions]
    assert statuses == [ExecutionStatus.CANCELLED, ExecutionStatus.COMPLETED]


def test_a_call_whose_tool_was_removed_fails_with_that_reason(plan, loop, make) -> None:
    make(for_ever)
    (execution,) = plan(("wait", "{}"))
    with tools.override(without=["wait"]):
        loop.calls.nudge(execution.id)
        assert ended(execution.id).error == "The tool wait is no longer available."
