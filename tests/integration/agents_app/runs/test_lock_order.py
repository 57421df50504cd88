"""Concurrent transactions of one tree or batch lock its rows in one order: on PostgreSQL none of them deadlocks."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connections
from django.utils import timezone

from agents_app import services as runs
from agents_app.models import DailyUsage, Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import lease, run_events, transitions, writes
from agents_app.runs.claims import Claim
from agents_app.runs.next_step import CANCELLED
from agents_app.runs.writes import Spent
from agents_app.types import ModelResponse, Usage
from agents_app.types.child_runs import ChildSpec
from audit_app.kernel.ids import derived_id, new_id
from sessions_app.integrity_checks import find_violations
from tests.support.engine import EngineRig, until_a_lock_is_awaited
from tools_app.executions import batches, runner
from tools_app.executions.cancel import cancel_execution
from tools_app.executions.runner import Outcome
from tools_app.models import ToolExecution
from tools_app.types import ExecutionStatus, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)

_ITEMS = 8


@pytest.fixture(autouse=True)
def _no_processes(idle: EngineRig) -> None:
    """Lose all nudges: each test is the processes."""
    idle.drops = lambda task_name: True
    idle.agent(Reply())


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(_ITEMS) as pool:
        yield pool


def submit(pool: ThreadPoolExecutor, act: Callable[..., Any], *arguments: Any) -> "Future[Any]":
    """Call it in a thread with a connection of its own."""

    def call() -> Any:
        try:
            return act(*arguments)
        finally:
            connections.close_all()

    return pool.submit(call)


def claimed(run_id: UUID) -> Claim:
    claim = lease.claim(new_id(), run_id)
    assert claim
    return claim


def spent(*tokens: int) -> Spent:
    return Spent(0.1, timezone.now(), Usage(*tokens))


def start_batch(idle: EngineRig, running: int) -> tuple[UUID, list[ToolExecution]]:
    """Start a run whose model asks for a batch. Return its id and that many items, which run."""
    call = ToolCall("c1", "batch", json.dumps({"tool": "echo", "items": [{"text": str(n)} for n in range(_ITEMS)]}))
    claim = claimed(idle.send().run_id)
    writes.record_and_decide(claim, claim.snapshot, 0, ModelResponse(tool_calls=(call,)), spent())
    items = ToolExecution.objects.filter(batch_id__isnull=False, renudge_at__isnull=False).order_by("call_index")
    rows = [runner.claim(item.pk, new_id()) for item in items[:running]]
    assert len(rows) == running and all(rows)
    return claim.run.pk, [row for row in rows if row]


def new_child(run_id: UUID, name: str) -> runs.NewChild:
    return runs.NewChild(derived_id(run_id, name), run_id, name, ChildSpec(name=name, instruction="Work."))


def end_item(row: ToolExecution) -> None:
    runner.record_once(row, Outcome(ExecutionStatus.COMPLETED, output='{"text": "x"}'))


def check_stopped(run_id: UUID) -> None:
    assert Run.objects.get(pk=run_id).status == "cancelled"
    assert not ToolExecution.objects.filter(status__in=("Pending", "Running")).exists()
    assert find_violations() == []


def test_two_items_end_while_the_run_is_cancelled(
    idle: EngineRig, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one releases the next item of the batch after the others have locked what they can."""
    monkeypatch.setattr(settings, "KOMAND_BATCH_PARALLEL", 2)
    run_id, (first, second) = start_batch(idle, 2)
    others: list[Future[Any]] = []
    item_ended = batches.item_ended

    def hold_up(row: ToolExecution) -> None:
        if not others:
            others.extend((submit(pool, end_item, second), submit(pool, runs.cancel_run, run_id)))
            until_a_lock_is_awaited(by=2)
        item_ended(row)

    monkeypatch.setattr(batches, "item_ended", hold_up)
    end_item(first)
    for other in others:
        other.result(30)
    check_stopped(run_id)
    assert ToolExecution.objects.get(pk=first.pk).status == "Completed"


def test_all_items_end_at_once_while_the_batch_and_the_run_are_cancelled(
    idle: EngineRig, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "KOMAND_BATCH_PARALLEL", _ITEMS)
    run_id, items = start_batch(idle, _ITEMS - 2)
    start = threading.Barrier(_ITEMS)
    batch_id = items[0].batch_id

    def at_once(act: Callable[..., Any], argument: Any) -> None:
        start.wait(60)
        act(argument)

    acts: list[tuple[Callable[..., Any], Any]] = [(end_item, item) for item in items]
    acts += [(runs.cancel_run, run_id), (cancel_execution, batch_id)]
    for done in [submit(pool, at_once, *act) for act in acts]:
        done.result(30)
    check_stopped(run_id)


def test_a_child_records_a_step_while_its_parent_ends(
    idle: EngineRig, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent adds a call to the sums of the conversation, then locks its child, which adds another one."""
    run_id = idle.send().run_id
    child = runs.start_child(new_child(run_id, "a"))
    parent_claim, child_claim = claimed(run_id), claimed(child.pk)
    others: list[Future[Any]] = []
    end = transitions.end

    def hold_up(*arguments: Any, **given: Any) -> bool:
        if not others:
            answer = ModelResponse("Half.", usage=Usage(3, 4))
            arguments_of_child = (child_claim, child_claim.snapshot, 0, answer, spent())
            others.append(submit(pool, writes.record_and_decide, *arguments_of_child))
            until_a_lock_is_awaited()
        return end(*arguments, **given)

    monkeypatch.setattr(transitions, "end", hold_up)
    writes.end_early(parent_claim, CANCELLED, partial="", spent=spent(10, 20))
    others[0].result(30)
    assert not Run.objects.filter(ended_at=None).exists()
    assert DailyUsage.objects.get().input_tokens == 13


def test_a_child_is_started_while_another_one_ends(
    idle: EngineRig, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end updates its row twice, so PostgreSQL checks at the commit that its parent exists, behind the timeline."""
    run_id = idle.send().run_id
    first, second = (new_child(run_id, name) for name in ("a", "b"))
    claim = claimed(runs.start_child(first).pk)
    others: list[Future[Any]] = []
    launched = run_events.launched

    def hold_up(run: Run) -> Any:
        arguments_of_child = (claim, claim.snapshot, 0, ModelResponse("Done."), spent())
        others.append(submit(pool, writes.record_and_decide, *arguments_of_child))
        until_a_lock_is_awaited(or_done=others[0].done)
        return launched(run)

    monkeypatch.setattr(run_events, "launched", hold_up)
    runs.start_child(second)
    others[0].result(30)
    assert list(Run.objects.filter(parent=run_id).order_by("workstream").values_list("workstream", "status")) == [
        ("a", "completed"),
        ("b", "queued"),
    ]
