"""Cancellation: the row first, the process after commit, late results dropped."""

import pytest
from django.db import transaction

from audit_app import services as audit
from audit_app.models import AuditEntry, Event
from tools_app import selectors, services
from tools_app.types import ExecutionStatus, without_receipt

pytestmark = pytest.mark.usefixtures("world")


def test_a_runs_open_calls_are_cancelled_and_their_processes_stopped(plan, stopped, nudges):
    done, pending = plan(("echo", '{"text": "a"}'), ("echo", '{"text": "b"}'))
    services.execute(done.id)
    nudges.clear()
    with transaction.atomic():
        emitted = services.cancel_executions(done.run_id, reason="The run was cancelled.")
        audit.emit(emitted)
        assert stopped == []
    assert stopped == [str(pending.id)]
    assert [execution.status for execution in selectors.list_executions(done.run_id)] == ["Completed", "Cancelled"]
    assert selectors.get_execution(pending.id).error == "The run was cancelled."
    assert nudges == []
    assert Event.objects.get(type="tool.failed").payload["status"] == "Cancelled"
    assert AuditEntry.objects.get(action="ToolExecutionFailed").details["status"] == "Cancelled"


def test_a_cancel_that_is_rolled_back_stops_nothing(plan, stopped):
    (execution,) = plan(("echo", '{"text": "a"}'))
    with pytest.raises(RuntimeError), transaction.atomic():
        services.cancel_executions(execution.run_id, reason="no")
        raise RuntimeError
    assert stopped == []
    assert selectors.has_open(execution.run_id)


def test_cancelling_one_call_lets_its_run_go_on(plan, stopped, nudges):
    (execution,) = plan(("echo", '{"text": "a"}'))
    assert services.cancel_execution(execution.id)
    assert stopped == [str(execution.id)]
    assert nudges.of("test.done") == [str(execution.run_id)]
    cancelled = selectors.get_execution(execution.id)
    assert cancelled.status is ExecutionStatus.CANCELLED
    assert without_receipt(cancelled.text_for_model) == "[Cancelled] A user cancelled this call."


def test_what_has_ended_is_not_cancelled_again(plan, stopped):
    (execution,) = plan(("echo", '{"text": "a"}'))
    services.execute(execution.id)
    assert not services.cancel_execution(execution.id)
    with transaction.atomic():
        assert services.cancel_executions(execution.run_id, reason="no") == []
    assert stopped == []
    assert selectors.get_execution(execution.id).status is ExecutionStatus.COMPLETED


def test_a_cancelled_call_is_not_run(plan, make_tool):
    make_tool(lambda arguments, context: pytest.fail("it was run"))
    (execution,) = plan(("act", "{}"))
    services.cancel_execution(execution.id)
    services.execute(execution.id)
    assert selectors.get_execution(execution.id).status is ExecutionStatus.CANCELLED
