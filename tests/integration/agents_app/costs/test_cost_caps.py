"""Caps of costs per day and month: refused before the next call, with an alert before, and free when they reset."""

from datetime import date
from typing import Any

import pytest

from agents_app.costs import cost_settings, usage_ledger, usage_report
from agents_app.models import CostTotal, UserCostCap
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunView, Usage
from agents_app.types.prices import Price
from audit_app.kernel import context
from audit_app.models import AuditEntry
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture(autouse=True)
def _today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_ledger, "today", lambda: date(2026, 11, 30))


def ask(rig: EngineRig, text: str = "hello") -> RunView:
    with context.bind(actor=f"user:{rig.owner.pk}"):
        return rig.wait(rig.send(text).run_id).run


def answering(rig: EngineRig, tokens: int, **fields: Any) -> None:
    """Let the agent answer at a price of 1 for 1,000 tokens."""
    rig.agent(Reply(("An answer.",), usage=Usage(tokens, 0)), **fields)
    cost_settings.set_price("scripted", "script", Price(1.0, 1.0))


@pytest.mark.parametrize(
    ("budgets", "setting", "budget"),
    [
        ({"costPerDay": 2}, "", "daily budget of this agent"),
        ({"costPerMonth": 2}, "", "monthly budget of this agent"),
        ({}, "KOMAND_COST_PER_DAY", "daily budget of this installation"),
        ({}, "KOMAND_USER_COST_PER_MONTH", "monthly budget of this user"),
    ],
)
def test_a_used_up_cap_refuses_the_next_call_and_names_itself(
    rig: EngineRig, settings: Any, budgets: dict[str, int], setting: str, budget: str
) -> None:
    if setting:
        setattr(settings, setting, 2)
    answering(rig, 2000, budgets=budgets)
    assert ask(rig).error_code == ""
    refused = ask(rig, "again")
    assert refused.error_code == "budget_exhausted"
    assert refused.error_message == (
        f"The {budget} is used up. Ask your administrator, or try again after 2026-12-01, 00:00 UTC. "
        "Your message is saved."
    )


def test_a_cap_of_the_user_replaces_that_of_the_settings(rig: EngineRig, settings: Any) -> None:
    settings.KOMAND_USER_COST_PER_DAY = 2
    answering(rig, 2000)
    UserCostCap.objects.create(user=rig.owner, per_day=5)
    assert [ask(rig, text).error_code for text in ("one", "two", "three")] == ["", "", ""]
    refused = ask(rig, "four")
    assert "The daily budget of this user is used up." in refused.error_message
    UserCostCap.objects.update(per_day=0)
    assert ask(rig, "five").error_code == ""


def test_an_alert_comes_once_a_period_before_the_cap_and_once_at_it(rig: EngineRig) -> None:
    answering(rig, 850, budgets={"costPerDay": 1})
    ask(rig)
    [near] = AuditEntry.objects.filter(action="CostAlert")
    assert near.details == {"scope": "agent:default", "period": "day", "level": "near", "spent": "0.85", "cap": "1"}
    answering(rig, 10, budgets={"costPerDay": 1})
    ask(rig, "again")
    assert AuditEntry.objects.filter(action="CostAlert").count() == 1
    answering(rig, 500, budgets={"costPerDay": 1})
    ask(rig, "and again")
    levels = AuditEntry.objects.filter(action="CostAlert").order_by("pk").values_list("details__level", flat=True)
    assert list(levels) == ["near", "reached"]


def test_a_cap_is_free_in_the_next_period(rig: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(rig, 3000, budgets={"costPerDay": 2, "costPerMonth": 5})
    ask(rig)
    assert "daily budget" in ask(rig, "again").error_message
    CostTotal.objects.update(day=date(2026, 11, 2))
    assert ask(rig, "later that month").error_code == ""
    assert "daily budget" in ask(rig, "again").error_message
    CostTotal.objects.filter(day=date(2026, 11, 30)).update(day=date(2026, 11, 3))
    assert "monthly budget" in ask(rig, "on another day").error_message
    monkeypatch.setattr(usage_ledger, "today", lambda: date(2026, 12, 1))
    assert ask(rig, "next month").error_code == ""


def test_calls_without_a_price_stop_nobody_and_are_counted_for_a_warning(rig: EngineRig, settings: Any) -> None:
    assert usage_report.count_uncapped_calls() == 0
    settings.KOMAND_COST_PER_DAY = 1
    rig.agent(Reply(("An answer.",), usage=Usage(5000, 0)), budgets={"costPerHour": 1, "costPerMonth": 1})
    assert [ask(rig, text).error_code for text in ("one", "two")] == ["", ""]
    assert usage_report.count_uncapped_calls() == 2
    settings.KOMAND_COST_PER_DAY = 0
    rig.agent(budgets={"actionsPerHour": 5})
    assert usage_report.count_uncapped_calls() == 0
