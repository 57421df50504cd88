"""Usage, costs, caps of users and prices of models over REST."""

import csv
import io
from datetime import date
from typing import Any
from uuid import uuid4

import pytest

from agents_app.costs import usage_ledger
from agents_app.models import CostTotal, DailyUsage, ModelPrice, UserCostCap
from agents_app.rights import SET_COST_CAPS, SET_PRICES, VIEW_COSTS
from audit_app.models import AuditEntry
from sessions_app.identity.api_keys import create_api_key
from tests.support.query_plans import caught, whole_reads
from tests.support.rest import Answer, RestCaller, make_agent, make_session, make_user
from tests.support.rights import make_operator

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]
TODAY = date(2026, 11, 20)


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_ledger, "today", lambda: TODAY)
    monkeypatch.setattr("sessions_app.surfaces.rest.objects.usage.today", lambda: TODAY)


def used(actor: str, *, day: int = 20, agent: str = "default", model: str = "m", tokens: int = 10, **more: Any) -> None:
    fields = {"provider": "demo", "calls": 1, "input_tokens": tokens, "output_tokens": 1, "cost_nanos": tokens * 10**8}
    keys = {"day": date(2026, 11, day), "agent_id": agent, "actor": actor, "model": model}
    DailyUsage.objects.create(**{**fields, **keys, "conversation_id": uuid4(), **more})


def actor_of(caller: RestCaller) -> str:
    assert caller.user
    return f"user:{caller.user.pk}"


def table(answer: Answer) -> list[list[str]]:
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.reader(io.StringIO(answer.data.decode())))


def test_everybody_reads_their_own_usage_and_holders_of_the_right_all(caller: RestCaller) -> None:
    used(actor_of(caller), tokens=10)
    used(actor_of(caller), tokens=5, day=19)
    used("user:999", tokens=100)
    own = caller.get("usage")
    assert [(row["day"], row["inputTokens"], row["cost"]) for row in own.data] == [
        ("2026-11-20", 10, 1.0),
        ("2026-11-19", 5, 0.5),
    ]
    assert own.meta["totals"]["inputTokens"] == 15 and own.meta["total"] == 2
    carol = RestCaller(make_operator("carol", VIEW_COSTS))
    assert carol.get("usage").meta["totals"]["inputTokens"] == 115
    assert carol.get("usage?userId=999").meta["totals"]["inputTokens"] == 100
    refused = caller.get("usage?userId=999")
    assert (refused.status, refused.meta["right"]) == (403, VIEW_COSTS.permission)


def test_sums_by_several_groups_begin_with_the_newest_day_and_the_highest_cost(caller: RestCaller) -> None:
    for agent, day, tokens in (("a", 19, 9), ("a", 20, 1), ("b", 20, 2), ("b", 20, 3)):
        used(actor_of(caller), agent=agent, day=day, tokens=tokens)
    rows = caller.get("usage?by=day,agent").data
    assert [(row["day"][-2:], row["agentId"], row["inputTokens"], row["calls"]) for row in rows] == [
        ("20", "b", 5, 2),
        ("20", "a", 1, 1),
        ("19", "a", 9, 1),
    ]
    assert {row["model"] for row in rows} == {None}
    by_model = caller.get("usage?by=model").data
    assert [(row["provider"], row["model"], row["inputTokens"]) for row in by_model] == [("demo", "m", 15)]
    paged = caller.get("usage?by=agent&pageSize=1&page=2")
    assert [row["agentId"] for row in paged.data] == ["b"] and paged.meta["total"] == 2


def test_the_range_and_the_filters_apply(caller: RestCaller) -> None:
    assert caller.user
    session = make_session(caller.user)
    used(actor_of(caller), day=1, conversation_id=session.pk, model="x")
    used(actor_of(caller), day=2, agent="b")
    totals = {
        query: caller.get(f"usage?{query}").meta["totals"]["calls"]
        for query in (
            "from=2026-11-02",
            "to=2026-11-01",
            "agentId=b",
            "model=x",
            f"sessionId={session.pk}",
            "to=2026-10-31",
        )
    }
    assert list(totals.values()) == [1, 1, 1, 1, 1, 0]
    key = create_api_key(caller.user, "script", scopes=["rest", "agent:b"])
    limited = RestCaller(bearer=key.key)
    assert limited.get("usage").meta["totals"]["calls"] == 1
    assert limited.get("usage?agentId=default").meta["totals"]["calls"] == 0


@pytest.mark.parametrize(
    "query",
    [
        "by=colour",
        "by=day,",
        "from=2024-01-01",
        "from=2026-11-21",
        "to=never",
        "userId=x",
        "format=xml",
        "to=0001-01-01&from=0001-02-01",
    ],
)
def test_a_query_that_cannot_be_answered_is_400(caller: RestCaller, query: str) -> None:
    assert caller.get(f"usage?{query}").status == 400


def test_a_session_of_another_user_is_404(caller: RestCaller) -> None:
    foreign = make_session(make_user("bob"))
    assert caller.get(f"usage?sessionId={foreign.pk}").status == 404
    assert RestCaller(make_operator("carol", VIEW_COSTS)).get(f"usage?sessionId={foreign.pk}").status == 200


@pytest.mark.parametrize(("query", "accept"), [("&format=csv", "*/*"), ("", "text/csv")])
def test_csv_contains_all_rows_and_no_formula(caller: RestCaller, query: str, accept: str) -> None:
    used(actor_of(caller), model="=cmd|' /C calc'!A0")
    used(actor_of(caller), model="plain", tokens=20)
    header, *rows = table(caller.get(f"usage?by=model&pageSize=1{query}", Accept=accept))
    assert [dict(zip(header, row, strict=True))["model"] for row in rows] == ["plain", "'=cmd|' /C calc'!A0"]
    assert "day" not in header and "cost" in header
    assert table(caller.get("usage?format=csv&to=2026-01-01"))[0][0] == "calls"


def test_reports_read_by_an_index(caller: RestCaller) -> None:
    carol = RestCaller(make_operator("carol"))
    for number in range(50):
        used(f"user:{number}", day=1 + number % 20)
    for client in (caller, carol):
        with caught() as statements:
            assert client.get("usage?by=day,agent,user,session,model").status == 200
        assert whole_reads([one for one in statements if "daily_usage" in one[0]]) == []


def test_caps_show_what_is_used(caller: RestCaller, settings: Any) -> None:
    settings.KOMAND_COST_PER_MONTH, settings.KOMAND_USER_COST_PER_DAY = 100, 10
    make_agent("a", budgets={"costPerDay": 4})
    for scope, spent in (("installation", 25), ("agent:a", 5), (actor_of(caller), 2)):
        CostTotal.objects.create(scope=scope, day=TODAY, shard=0, cost_nanos=spent * 10**9)
    [own] = caller.get("usage/caps").data
    assert own == {
        "scope": actor_of(caller),
        "period": "day",
        "limit": 10.0,
        "spent": 2.0,
        "percent": 20,
        "resets": "2026-11-21",
        "setBy": "KOMAND_USER_COST_PER_DAY",
    }
    every = RestCaller(make_operator("carol", VIEW_COSTS)).get("usage/caps").data
    assert [(cap["scope"], cap["period"], cap["percent"]) for cap in every] == [
        ("installation", "month", 25),
        ("agent:a", "day", 125),
        (actor_of(caller), "day", 20),
    ]


def test_caps_of_a_user_replace_those_of_the_settings(caller: RestCaller, settings: Any) -> None:
    settings.KOMAND_USER_COST_PER_DAY = settings.KOMAND_USER_COST_PER_MONTH = 10
    assert caller.user
    path, carol = f"usage/caps/{caller.user.pk}", RestCaller(make_operator("carol", SET_COST_CAPS))
    assert caller.put(path, {"perDay": 1000}).status == 403
    assert carol.put("usage/caps/424242", {"perDay": 3}).status == 404
    assert carol.put(path, {"perDay": -1}).status == 400
    shown = carol.put(path, {"perDay": 3, "perMonth": 0}).data
    assert [(cap["period"], cap["limit"], cap["setBy"]) for cap in shown] == [("day", 3.0, "the user's cost caps")]
    assert caller.get("usage/caps").data == shown
    assert AuditEntry.objects.get(action="UserCostCapSet").details["per_day"] == 3
    assert [cap["limit"] for cap in carol.delete(path).data] == [10.0, 10.0]
    assert not UserCostCap.objects.exists()


def test_prices_are_set_listed_and_deleted_with_the_right(caller: RestCaller) -> None:
    make_agent()
    carol = RestCaller(make_operator("carol", SET_PRICES))
    path, price = "model-prices/demo/vendor/model-*", {"inputPrice": 0.001, "outputPrice": 0.01}
    assert caller.put(path, price).status == caller.delete(path).status == caller.get("model-prices").status == 403
    assert carol.put(path.replace("demo", "nobody"), price).status == 404
    assert carol.put(path, {"inputPrice": -1, "outputPrice": 1}).status == 400
    stored = {"provider": "demo", "model": "vendor/model-*", **price, "cachedInputPrice": None}
    assert carol.put(path, price).data == stored
    assert carol.put(path, {**price, "cachedInputPrice": 0.0005}).data["cachedInputPrice"] == 0.0005
    assert [row["model"] for row in carol.get("model-prices").data] == ["vendor/model-*"]
    assert RestCaller(make_operator("dave", VIEW_COSTS)).get("model-prices").meta["total"] == 1
    assert carol.delete(path).status == 200 and carol.delete(path).status == 404
    assert not ModelPrice.objects.exists()
    assert AuditEntry.objects.filter(action__in=["ModelPriceSet", "ModelPriceDeleted"]).count() == 3
