"""Calls of clients' tools: stored without a worker, answered once, ended without harm if their client does not come."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import transaction
from django.db.models.functions import Now

from audit_app.models import AuditEntry, Event
from tools_app import selectors, services
from tools_app.models import ToolExecution
from tools_app.policy.rules import AgentPolicy, SessionPolicy
from tools_app.types import ClientTool, ExecutionStatus, ExecutionView

pytestmark = pytest.mark.usefixtures("world")

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "timeout_seconds": {"type": "integer"}}}
WEATHER = ClientTool("get_weather", "Weather of a city", CITY)
OSLO = '{"city": "Oslo", "timeout_seconds": 3}'


class NobodyDead:
    def dead(self, owners: object) -> set[UUID]:
        return set()


@pytest.fixture
def called(plan) -> ExecutionView:
    (execution,) = plan(("get_weather", OSLO), client_tools=[WEATHER])
    return execution


def _answer(execution: ExecutionView, text: str) -> int:
    with transaction.atomic():
        return services.answer_client_calls(execution.run_id, {execution.id: text})


def _view(execution: ExecutionView) -> ExecutionView:
    return selectors.get_execution(execution.id)


def test_a_call_waits_for_its_client(called, nudges):
    assert called.status is ExecutionStatus.PENDING and called.client_until and not nudges
    assert called.arguments == {"city": "Oslo", "timeout_seconds": 3}, "its arguments are its own"
    types = list(Event.objects.order_by("seq").values_list("type", flat=True))
    assert types == ["tool.requested", "calls.returned"]
    assert Event.objects.get(type="calls.returned").payload["execution_ids"] == [str(called.id)]


def test_the_first_output_counts(called, nudges):
    assert _answer(called, "18 degrees") == 1
    assert _answer(called, "19 degrees") == 0
    assert _view(called).output == '"18 degrees"' and nudges.of("test.done") == [str(called.run_id)]
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["ToolCallRequested", "ToolExecutionStarted", "ToolExecutionCompleted"]
    assert _view(called).origins == ("tool:get_weather",), "what a client sends is from outside"


def test_an_output_that_is_json_stays_json(called):
    _answer(called, '{"degrees": 18}')
    assert _view(called).output == '{"degrees": 18}'


def test_a_call_whose_client_does_not_come_expires(called, nudges):
    services.sweep(NobodyDead())
    assert not _view(called).status.is_terminal
    ToolExecution.objects.update(renudge_at=Now() - timedelta(seconds=1), charged_at=Now() - timedelta(hours=1))
    assert selectors.count_untaken() == 0, "no worker has to take it"
    services.sweep(NobodyDead())
    assert _view(called).is_abandoned and nudges.of("test.done") == [str(called.run_id)]
    assert _answer(called, "late") == 0


def test_a_denial_by_name_holds_and_a_list_of_the_agent_does_not_matter(plan):
    policy = AgentPolicy(tools=("echo",), allowed=("echo",)).permitting(("get_weather",))
    (listed,) = plan(("get_weather", "{}"), client_tools=[WEATHER], policy=policy)
    assert listed.status is ExecutionStatus.PENDING
    (denied,) = plan(("get_weather", "{}"), client_tools=[WEATHER], policy=AgentPolicy(denied=("get_*",)))
    assert denied.status is ExecutionStatus.FAILED
    readonly = SessionPolicy(is_readonly=True)
    (read,) = plan(("get_weather", "{}"), client_tools=[WEATHER], session_policy=readonly)
    assert read.status is ExecutionStatus.PENDING


def test_arguments_that_do_not_fit_are_for_the_model(plan):
    (execution,) = plan(("get_weather", '{"city": 7}'), client_tools=[WEATHER])
    assert execution.status is ExecutionStatus.FAILED and not execution.client_until
    assert not Event.objects.filter(type="calls.returned").exists()


def test_a_cancelled_run_ends_its_calls(called):
    with transaction.atomic():
        services.cancel_executions(called.run_id, reason="Stopped.")
    assert _view(called).status is ExecutionStatus.CANCELLED and not _view(called).is_abandoned
