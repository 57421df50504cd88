"""A month of model calls: its sums by each axis are what the provider counted, at the prices of each call's time."""

import random
from collections import Counter
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.db.models import Sum

from agents_app.costs import usage_ledger
from agents_app.costs.usage_ledger import Payer
from agents_app.models import CostTotal, DailyUsage
from agents_app.types import Usage
from agents_app.types.prices import Price, PriceList, cost_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

_CALLS = 2000
_MODELS = (("main", "large"), ("main", "small"), ("backup", "large"))  # the last one answers as a fallback
_TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")


def test_a_month_adds_up_to_what_the_provider_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(2026)
    counted: dict[str, Counter[Any]] = {name: Counter() for name in (*_TOKENS, "cost_nanos")}
    sessions = [UUID(int=chance.getrandbits(128)) for _ in range(40)]
    for number in range(_CALLS):
        day = date(2026, 11, 1) + timedelta(days=30 * number // _CALLS)
        monkeypatch.setattr(usage_ledger, "today", lambda day=day: day)
        new_price = Price(0.003, 0.012, 0.0003) if day.day > 15 else Price(0.0025, 0.01)
        prices = PriceList((("large", new_price),), Price(0.00015, 0.0006))
        session, (provider, model) = chance.randrange(40), chance.choices(_MODELS, (8, 3, 1))[0]
        given, made = chance.randrange(20_000), chance.randrange(3_000)
        usage = Usage(given, made, chance.randint(0, given), chance.randint(0, made))
        # A failed try that reports its usage is a call as any other.
        call = usage_ledger.price_call(provider, model, prices, usage)
        agent_id, actor = f"agent-{session % 3}", f"user:{session % 7}"
        payer = Payer(sessions[session], agent_id, actor)
        with transaction.atomic():
            usage_ledger.add_call(payer, call)
        price = prices.find(model)
        assert price
        amounts = {name: getattr(usage, name) for name in _TOKENS} | {"cost_nanos": cost_of(usage, price)}
        for name, amount in amounts.items():
            for axis in (day, agent_id, actor, sessions[session], (provider, model)):
                counted[name][axis] += amount
    for name, expected in counted.items():
        stored: dict[Any, int] = {}
        for axis in ("day", "agent_id", "actor", "conversation_id"):
            stored |= dict(DailyUsage.objects.values_list(axis).annotate(Sum(name)).order_by())
        models = DailyUsage.objects.values_list("provider", "model").annotate(Sum(name)).order_by()
        stored |= {(provider, model): amount for provider, model, amount in models}
        assert stored == {axis: amount for axis, amount in expected.items() if axis in stored}
        assert stored.keys() == expected.keys()
    assert sum(DailyUsage.objects.values_list("calls", flat=True)) == _CALLS
    total = CostTotal.objects.filter(scope="installation").aggregate(Sum("cost_nanos"))["cost_nanos__sum"]
    assert total == sum(DailyUsage.objects.values_list("cost_nanos", flat=True))
