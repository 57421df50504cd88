"""Hourly budgets of tool calls, which are counted when they are allowed, and of the cost of model calls."""

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connections, transaction
from django.db.models import F
from django.utils import timezone

from agents_app import selectors
from agents_app.costs import cost_budget, cost_settings
from agents_app.costs.usage_ledger import price_call
from agents_app.models import Agent, ModelProvider, Run, Spending
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus, Usage
from agents_app.types.prices import Price, PriceList
from audit_app import services as audit
from audit_app.models import AuditEntry
from tests.support.engine import EngineRig
from tools_app import services
from tools_app.models import Approval, ToolExecution
from tools_app.policy.rules import AgentPolicy, Budgets
from tools_app.types import ExecutionStatus, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
TWO = AgentPolicy("full", agent_id="default", budgets=Budgets(actions_per_hour=2))
ECHO = ToolCall("c", "echo", '{"text": "x"}')


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop the nudge."""
    monkeypatch.setattr("audit_app.kernel.nudges.send", lambda *args, **options: None)


def plan(*calls: ToolCall, policy: AgentPolicy = TWO) -> list[ExecutionStatus]:
    with transaction.atomic():
        planned = services.plan_executions(
            calls,
            services.StepContext(uuid4(), uuid4(), "", "default", "user:1", 0, on_done="x", on_done_queue="runs"),
            policy=policy,
            text_length=0,
        )
        audit.emit(planned.events)
        return [execution.status for execution in planned.executions]


def count_charged() -> int:
    return ToolExecution.objects.filter(agent_id="default", charged_at__isnull=False).count()


def test_calls_beyond_the_budget_are_refused_with_the_time_when_it_frees(quiet: None) -> None:
    assert plan(ECHO, ECHO, ECHO) == [ExecutionStatus.PENDING, ExecutionStatus.PENDING, ExecutionStatus.FAILED]
    error = ToolExecution.objects.get(status="Failed").error or ""
    frees_at = timezone.now() + timedelta(hours=1)
    assert "budget of 2 actions an hour" in error
    assert f"free at {frees_at:%H:%M}" in error or f"free at {frees_at - timedelta(minutes=1):%H:%M}" in error
    assert count_charged() == 2
    entry = AuditEntry.objects.get(action="ToolExecutionFailed")
    assert (entry.actor, "budget" in entry.details["error"]) == ("user:1", True)


def test_an_hour_later_it_is_free_again(quiet: None) -> None:
    plan(ECHO, ECHO)
    ToolExecution.objects.update(charged_at=timezone.now() - timedelta(minutes=61))
    assert plan(ECHO) == [ExecutionStatus.PENDING]


def test_what_is_refused_or_unfit_costs_nothing(quiet: None) -> None:
    denied = AgentPolicy("full", agent_id="default", denied=("echo",), budgets=TWO.budgets)
    plan(ToolCall("c", "echo", "{}"), ToolCall("c", "no_such", "{}"))
    plan(ECHO, policy=denied)
    assert count_charged() == 0


def test_no_actions_means_none(quiet: None) -> None:
    none = AgentPolicy("full", agent_id="default", budgets=Budgets(actions_per_hour=0))
    assert plan(ECHO, policy=none) == [ExecutionStatus.FAILED]


def test_a_denied_request_gives_its_place_back(quiet: None) -> None:
    asking = AgentPolicy(agent_id="default", always_ask=("echo",), budgets=TWO.budgets)
    plan(ECHO, ECHO, policy=asking)
    assert count_charged() == 2
    for approval in Approval.objects.all():
        services.decide_approval(approval.id, decision="deny", actor="user:1", policy=services.CurrentPolicy(asking))
    assert count_charged() == 0


def test_many_at_once_take_no_more_than_there_is(quiet: None) -> None:
    policy = AgentPolicy("full", agent_id="default", budgets=Budgets(actions_per_hour=5))

    def work() -> None:
        try:
            plan(ECHO, ECHO, policy=policy)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ToolExecution.objects.filter(status="Pending").count() == 5


def test_a_run_ends_when_the_cost_of_its_hour_is_spent(rig: EngineRig) -> None:
    usage = Usage(1500, 500)
    rig.agent(Reply(tool_calls=(ECHO,), usage=usage), Reply(("Never said.",), usage=usage), budgets={"costPerHour": 2})
    cost_settings.set_price("scripted", "script", Price(1.0, 1.0))
    transcript = rig.wait(rig.send().run_id)
    assert (transcript.run.status, transcript.run.error_code) == (RunStatus.FAILED, "budget_exhausted")
    assert "The hourly budget of the agent" in transcript.run.error_message
    later = rig.wait(rig.send("again").run_id)
    assert (later.run.error_code, later.steps) == ("budget_exhausted", ())


def test_prices_turn_tokens_into_cost() -> None:
    provider = ModelProvider.objects.create(name="p", kind="demo", input_price=0.5, output_price=2)
    agent = Agent.objects.create(agent_id="a", name="A", provider=provider, budgets={"costPerHour": 10})
    prices = selectors.price_list(provider)
    for _ in range(3):
        cost_budget.charge(Run(agent=agent), price_call("p", "m", prices, Usage(2000, 1000)))
    cost_budget.charge(Run(agent=agent), price_call("p", "m", prices, Usage(), text="x" * 4000))  # no counts
    assert sum(Spending.objects.values_list("cost", flat=True)) == 11.0
    assert "hourly budget of the agent" in cost_budget.budget_refusal(agent)
    Spending.objects.update(minute=F("minute") - timedelta(minutes=61))  # one row, or two at the end of a minute
    assert cost_budget.budget_refusal(agent) == ""


def test_nothing_is_kept_for_an_agent_without_a_budget() -> None:
    provider = ModelProvider.objects.create(name="p", kind="demo")
    agent = Agent.objects.create(agent_id="a", name="A", provider=provider)
    cost_budget.charge(Run(agent=agent), price_call("p", "m", PriceList(), Usage(2000, 1000)))
    assert not Spending.objects.exists()
    assert cost_budget.budget_refusal(agent) == ""
