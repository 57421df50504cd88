"""The sweeper recovers every execution whose nudge, process or end was lost, once."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models.functions import Now

from audit_app.models import Event
from tools_app import conf, selectors, services
from tools_app.executions.transitions import move
from tools_app.models import ToolExecution
from tools_app.types import Effect, ExecutionStatus

pytestmark = pytest.mark.usefixtures("world")


class Observing:
    """An observer that considers the given processes dead."""

    def __init__(self, *dead):
        self._dead = set(dead)

    def dead(self, owners):
        return self._dead & set(owners)


@pytest.fixture
def begin(plan, make_tool, nudges):
    """Return a running call and the id of its process."""

    def begin_call(effect=Effect.READ, seconds_ago=1, timeout_seconds=10):
        make_tool(lambda arguments, context: None, effect=effect, timeout_seconds=timeout_seconds)
        (execution,) = plan(("act", "{}"))
        owner = uuid4()
        move(execution.id, ExecutionStatus.RUNNING, owner=owner)
        ToolExecution.objects.update(started_at=Now() - timedelta(seconds=seconds_ago))
        nudges.clear()
        return execution, owner

    return begin_call


def age(seconds, *, due=True):
    """Make the pending executions that old, and due for another nudge."""
    renudge_at = Now() - timedelta(seconds=1) if due else Now() + timedelta(seconds=1)
    ToolExecution.objects.update(created_at=Now() - timedelta(seconds=seconds), renudge_at=renudge_at)


def test_a_living_process_is_left_alone(begin, nudges, stopped):
    execution, _ = begin(seconds_ago=11)
    services.sweep(Observing())
    assert selectors.get_execution(execution.id).status is ExecutionStatus.RUNNING
    assert not nudges
    assert not stopped


@pytest.mark.parametrize("effect", [Effect.READ, Effect.KEYED])
def test_a_repeatable_call_of_a_dead_process_is_run_again(begin, nudges, effect):
    execution, owner = begin(effect)
    services.sweep(Observing(owner))
    row = ToolExecution.objects.get()
    assert (row.status, row.owner, row.started_at) == ("Pending", None, None)
    assert nudges.of("tools.execute") == [str(execution.id)]
    services.execute(execution.id)
    row.refresh_from_db()
    assert (row.status, row.attempts) == ("Completed", 2)


def test_a_once_call_of_a_dead_process_is_never_repeated(begin, nudges):
    execution, owner = begin(Effect.ONCE)
    services.sweep(Observing(owner))
    done = selectors.get_execution(execution.id)
    assert done.status is ExecutionStatus.UNKNOWN
    assert "it may have taken effect" in done.text_for_model
    assert nudges.of("tools.execute") == []
    assert nudges.of("test.done") == [str(execution.run_id)]
    assert Event.objects.get(type="tool.failed").payload["status"] == "Unknown"


def test_a_call_that_kills_its_process_each_time_is_given_up(begin, nudges):
    execution, owner = begin()
    ToolExecution.objects.update(attempts=conf.MAX_ATTEMPTS)
    services.sweep(Observing(owner))
    assert selectors.get_execution(execution.id).error == "The process that ran this call died 3 times."
    assert nudges.of("test.done") == [str(execution.run_id)]


def test_a_call_past_its_hard_limit_is_timed_out_and_its_process_stopped(begin, nudges, stopped):
    execution, _ = begin(seconds_ago=10 + conf.GRACE_SECONDS + conf.KILL_SLACK_SECONDS + 0.1)
    services.sweep(Observing())
    done = selectors.get_execution(execution.id)
    assert done.status is ExecutionStatus.TIMED_OUT
    assert done.text_for_model.startswith("[TimedOut] The call did not finish within 10 seconds")
    assert done.duration_seconds > 10
    assert stopped == [str(execution.id)]
    assert nudges.of("test.done") == [str(execution.run_id)]


def test_a_process_that_was_killed_at_the_limit_leaves_a_timed_out_call(begin, stopped):
    execution, owner = begin(Effect.ONCE, seconds_ago=10 + conf.GRACE_SECONDS)
    services.sweep(Observing(owner))
    assert selectors.get_execution(execution.id).status is ExecutionStatus.TIMED_OUT
    assert stopped == []


def test_a_lost_nudge_is_repeated_with_back_off(plan, nudges):
    (execution,) = plan(("echo", '{"text": "a"}'))
    nudges.clear()
    services.sweep(Observing())
    assert nudges == []
    age(3)
    services.sweep(Observing())
    services.sweep(Observing())
    assert nudges.of("tools.execute") == [str(execution.id)]
    age(1000)
    services.sweep(Observing())
    wait = ToolExecution.objects.annotate(now=Now()).get()
    assert timedelta(seconds=58) < wait.renudge_at - wait.now <= timedelta(seconds=60)


def test_calls_that_no_worker_takes_are_logged_as_an_error(plan, nudges, caplog):
    plan(("echo", '{"text": "a"}'))
    age(29)
    ToolExecution.objects.update(charged_at=Now() - timedelta(seconds=29))
    services.sweep(Observing())
    assert not caplog.records
    age(31)
    ToolExecution.objects.update(charged_at=Now() - timedelta(seconds=31))
    services.sweep(Observing())
    assert "no worker has taken for 30 s: 1" in caplog.text


def test_a_pending_call_that_is_not_due_is_not_nudged(plan, nudges):
    plan(("echo", '{"text": "a"}'))
    age(100, due=False)
    nudges.clear()
    services.sweep(Observing())
    assert nudges == []


def test_two_sweepers_at_once_act_once(begin, nudges):
    execution, owner = begin(Effect.ONCE)
    stale = ToolExecution.objects.annotate(now=Now()).get()
    services.sweep(Observing(owner))
    assert not move(stale.id, ExecutionStatus.TIMED_OUT, attempt=stale.attempts)
    services.sweep(Observing(owner))
    assert nudges.of("test.done") == [str(execution.run_id)]
    assert Event.objects.filter(type="tool.failed").count() == 1
