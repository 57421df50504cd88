"""Execution of a planned call: one result, its events and nudges, and errors for the model."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from audit_app.kernel import context
from audit_app.models import AuditEntry, Event
from tests.support.built_statements import built_statements
from tools_app import conf, selectors, services
from tools_app.executions import runner
from tools_app.executions.transitions import move
from tools_app.models import ToolExecution
from tools_app.receipts import receipts
from tools_app.types import ExecutionStatus, ToolError, without_receipt

pytestmark = pytest.mark.usefixtures("world")


def test_a_result_is_stored_emitted_and_nudged(plan, nudges, passing):
    (execution,) = plan(("echo", '{"text": "hi"}'))
    services.execute(execution.id)
    done = selectors.get_execution(execution.id)
    assert (done.status, done.output, done.error) == (ExecutionStatus.COMPLETED, '{"text": "hi"}', None)
    assert done.text_for_model == f'{{"text": "hi"}}\n[receipt: {done.receipt}]'
    assert done.duration_seconds >= 0
    assert nudges.of("test.done") == [str(execution.run_id)]
    assert [event.type.name for event in passing] == ["tool.started"]
    event = Event.objects.get(type="tool.completed")
    assert event.payload["output"] == '{"text": "hi"}'
    assert event.payload["duration_ms"] == round(done.duration_seconds * 1000)
    assert AuditEntry.objects.filter(action="ToolExecutionCompleted", actor="user:7", agent_id="default").count() == 1


def test_a_call_is_claimed_and_ended_by_few_statements_none_of_which_is_built(plan):
    first, second = plan(("echo", '{"text": "a"}'), ("echo", '{"text": "b"}'))
    services.execute(first.id)  # statements are compiled
    with built_statements() as built, CaptureQueriesContext(connection) as queries:
        services.execute(second.id)
    assert built == []
    of_executions = [query["sql"] for query in queries if '"komand_tool_execution"' in query["sql"]]
    assert len(of_executions) <= 4, of_executions  # claim, end, receipt, and whether others are open
    done = selectors.get_execution(second.id)
    assert (done.status, done.output) == (ExecutionStatus.COMPLETED, '{"text": "b"}')
    assert receipts.verify_receipt(done.receipt).is_valid


def test_a_second_nudge_runs_nothing(plan, make_tool):
    runs = []
    make_tool(lambda arguments, context: runs.append(1))
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    services.execute(execution.id)
    services.execute(uuid4())
    assert len(runs) == 1


def test_the_run_is_nudged_by_its_last_call_alone(plan, nudges):
    first, second = plan(("echo", '{"text": "a"}'), ("echo", '{"text": "b"}'))
    services.execute(first.id)
    assert nudges.of("test.done") == []
    assert selectors.has_open(first.run_id)
    services.execute(second.id)
    assert nudges.of("test.done") == [str(first.run_id)]
    assert not selectors.has_open(first.run_id)


def test_the_run_is_nudged_though_its_last_two_calls_end_at_the_same_moment(plan, make_tool, nudges):
    together = Barrier(2, timeout=10)
    make_tool(lambda arguments, context: together.wait() and None)
    first, second = plan(("act", "{}"), ("act", "{}"))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(execute_and_leave, [first.id, second.id]))
    assert nudges.of("test.done") == [str(first.run_id)]


def execute_and_leave(execution_id):
    """Execute in a thread of its own, which closes its own connection."""
    try:
        services.execute(execution_id)
    finally:
        connection.close()


def test_a_tool_knows_its_surroundings_and_acts_for_the_actor(plan, make_tool):
    seen = {}

    def look(arguments, tool_context):
        seen.update(context.current(), effect_key=tool_context.effect_key, attempt=tool_context.execution_id)

    make_tool(look)
    with context.bind(request_id="req-9"):
        first, second = plan(("act", "{}"), ("act", "{}"))
    services.execute(first.id)
    assert (seen["request_id"], seen["actor"], seen["run_id"]) == ("req-9", "user:7", str(first.run_id))
    key = seen["effect_key"]
    services.execute(second.id)
    assert seen["effect_key"] != key
    ToolExecution.objects.filter(id=first.id).update(status="Pending", completed_at=None, renudge_at=timezone.now())
    services.execute(first.id)
    assert seen["effect_key"] == key


@pytest.mark.parametrize(
    ("problem", "status", "error"),
    [
        (ToolError("No such page."), "Failed", "No such page."),
        (RuntimeError("password=hunter2"), "Failed", "The tool act failed unexpectedly. It may be faulty."),
        (SoftTimeLimitExceeded(), "TimedOut", "The call did not finish within 10 seconds."),
        (ToolError("a\0b\ud800"), "Failed", "ab?"),
    ],
)
def test_a_fault_becomes_an_error_for_the_model(plan, nudges, make_tool, problem, status, error):
    def fail(arguments, context):
        raise problem

    make_tool(fail)
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    done = selectors.get_execution(execution.id)
    assert (done.status, done.error, done.output) == (status, error, None)
    assert without_receipt(done.text_for_model) == f"[{status}] {error}"
    assert nudges.of("test.done") == [str(execution.run_id)]
    assert Event.objects.get(type="tool.failed").payload["status"] == status


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
def test_a_result_that_is_no_json_is_a_fault_of_the_tool(plan, make_tool, value):
    make_tool(lambda arguments, context: value)
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    assert selectors.get_execution(execution.id).error == "The tool act failed unexpectedly. It may be faulty."


def test_a_tool_that_is_gone_from_the_worker_fails_the_call(plan, make_tool, monkeypatch):
    make_tool(lambda arguments, context: None)
    (execution,) = plan(("act", "{}"))
    monkeypatch.setattr("tools_app.executions.runner.catalogue.find_tool", lambda name, agent_id: None)
    services.execute(execution.id)
    assert "not available" in selectors.get_execution(execution.id).error


def test_a_huge_result_is_cut_and_stays_json(plan, make_tool):
    make_tool(lambda arguments, context: {"text": "ä" * conf.MAX_OUTPUT_CHARACTERS})
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    output = json.loads(selectors.get_execution(execution.id).output)
    assert output["note"].startswith("Cut: the result has")
    assert len(output["cut_json"]) == conf.MAX_OUTPUT_CHARACTERS // 2
    assert len(Event.objects.get(type="tool.completed").payload["output"]) == conf.MAX_EVENT_CHARACTERS


def test_text_that_no_database_takes_is_mended(plan, make_tool):
    make_tool(lambda arguments, context: "a\0\0b\ud800c\\u0000\\\0")
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    assert json.loads(selectors.get_execution(execution.id).output) == "ab?c\\u0000\\"


def test_a_result_that_comes_after_the_end_is_dropped(plan, make_tool, nudges):
    def outlive(arguments, context):
        move(context.execution_id, ExecutionStatus.CANCELLED, error="stopped")
        return "late"

    make_tool(outlive)
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    done = selectors.get_execution(execution.id)
    assert (done.status, done.output) == (ExecutionStatus.CANCELLED, None)
    assert not Event.objects.filter(type="tool.completed").exists()


def test_an_attempt_that_was_given_up_writes_nothing_into_the_next_one(plan, make_tool):
    def sleep_through_a_second_attempt(arguments, context):
        with transaction.atomic():
            assert move(context.execution_id, ExecutionStatus.PENDING)
            assert move(context.execution_id, ExecutionStatus.RUNNING, owner=uuid4())
        return "from the grave"

    make_tool(sleep_through_a_second_attempt)
    (execution,) = plan(("act", "{}"))
    services.execute(execution.id)
    row = ToolExecution.objects.get()
    assert (row.status, row.attempts, row.output) == ("Running", 2, None)


def test_a_result_waits_for_a_database_that_is_away(plan, monkeypatch):
    (execution,) = plan(("echo", '{"text": "hi"}'))
    real, failures = runner.finish, [OperationalError("away"), OperationalError("away")]

    def finish(row, outcome):
        if failures:
            raise failures.pop()
        return real(row, outcome)

    monkeypatch.setattr(runner, "finish", finish)
    monkeypatch.setattr(runner, "_RECORD_PAUSE_SECONDS", 0)
    services.execute(execution.id)
    assert selectors.get_execution(execution.id).status is ExecutionStatus.COMPLETED


def test_a_limit_that_strikes_while_the_result_is_stored_loses_nothing(plan, monkeypatch):
    (execution,) = plan(("echo", '{"text": "hi"}'))
    real, strikes = runner.finish, [SoftTimeLimitExceeded()]

    def finish(row, outcome):
        if strikes:
            raise strikes.pop()
        return real(row, outcome)

    monkeypatch.setattr(runner, "finish", finish)
    services.execute(execution.id)
    assert selectors.get_execution(execution.id).output == '{"text": "hi"}'


def test_the_results_of_a_batch_are_read_at_its_end_alone(plan, make_tool):
    make_tool(lambda arguments, context: "done")
    plan(("batch", '{"tool": "act", "items": [{}, {}]}'))

    def count_reads(item: ToolExecution) -> int:
        with CaptureQueriesContext(connection) as caught:
            services.execute(item.id)
        reads = [query["sql"] for query in caught if "SELECT" in query["sql"] and '"batch_id" = ' in query["sql"]]
        assert reads
        return sum('"output"' in sql for sql in reads)

    first, second = ToolExecution.objects.filter(batch_id__isnull=False).order_by("call_index")
    assert (count_reads(first), count_reads(second)) == (0, 1)
    assert json.loads(ToolExecution.objects.get(tool="batch").output)["succeeded"] == 2
