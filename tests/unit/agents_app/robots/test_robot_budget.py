"""Budgets of robots: reserved before a call, also by parallel ones, and settled after it."""

import pytest

from agents_app.robots.failures import RobotError
from agents_app.robots.robot_budget import Budget, Ledger, Reservation, check, reserve, settle
from agents_app.types import Limits, Usage
from agents_app.types.prices import Price, PriceList

PRICE = Price(1.0, 2.0)  # per 1,000 tokens


def reserved(ledger: Ledger, budget: Budget, wanted: int | None = None) -> Reservation:
    found = reserve(ledger, budget, PRICE, input_tokens=100, wanted=wanted)
    assert isinstance(found, Reservation)
    return found


def test_without_a_budget_nothing_is_limited() -> None:
    ledger, budget = Ledger(), Budget()
    first = reserved(ledger, budget, 7000)
    assert (first.output, ledger.tokens) == (7000, 0)
    settle(ledger, budget, first, Usage(90, 10), PRICE)
    assert (ledger.tokens, ledger.calls, ledger.usage, round(ledger.cost, 6)) == (100, 1, Usage(90, 10), 0.11)


def test_the_answer_gets_what_is_left_and_parallel_calls_share_it() -> None:
    ledger, budget = Ledger(), Budget(tokens=5000)
    first, second = reserved(ledger, budget), reserved(ledger, budget)
    assert (first.output, second.output) == (Limits.answer_tokens, 5000 - 200 - Limits.answer_tokens)
    refusal = reserve(ledger, budget, PRICE, input_tokens=100, wanted=None)
    assert isinstance(refusal, str) and "5,000 tokens" in refusal
    settle(ledger, budget, first, Usage(100, 20), PRICE)
    settle(ledger, budget, second, Usage(), PRICE, text="x" * 40)  # a server that reports nothing
    assert ledger.tokens == 230 and isinstance(
        reserve(ledger, budget, PRICE, input_tokens=100, wanted=None), Reservation
    )


def test_a_cost_budget_limits_the_answer_by_its_price() -> None:
    ledger, budget = Ledger(), Budget(cost=1.0)
    first = reserved(ledger, budget)
    assert first.output == 450 and round(ledger.cost, 6) == 1.0  # 0.1 for the input, 0.9 for 450 tokens
    assert isinstance(reserve(ledger, budget, PRICE, input_tokens=1, wanted=None), str)
    settle(ledger, budget, first, Usage(100, 50), PRICE)
    assert round(ledger.cost, 6) == 0.2


def test_a_cost_budget_needs_a_price() -> None:
    check(Budget(cost=1.0), PriceList((("m", PRICE),)), "m")
    check(Budget(tokens=1), PriceList(), "m")
    with pytest.raises(RobotError, match="has no price"):
        check(Budget(cost=1.0), PriceList(), "m")
