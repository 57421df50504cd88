"""Prices by model and the cost of a call."""

import pytest

from agents_app.types import Usage
from agents_app.types.prices import NANOS, Price, PriceList, cost_of, money

GPT, MINI, REST = Price(0.01, 0.03), Price(0.001, 0.002), Price(0.5, 0.5)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("gpt-5", GPT),
        ("gpt-5-mini", MINI),
        ("gpt-5-mini-2026", MINI),
        ("gpt-5.1", GPT),
        ("claude", REST),
        ("a[b]?", Price(1, 2)),
        ("ab!", REST),
    ],
)
def test_a_name_goes_before_patterns_and_the_longest_pattern_before_shorter_ones(model: str, price: Price) -> None:
    named = (("gpt-5*", GPT), ("gpt-5-mini*", MINI), ("gpt-5-mini", MINI), ("a[b]?", Price(1, 2)))
    assert PriceList(named, REST).find(model) == price


def test_a_model_without_a_price_has_none() -> None:
    assert PriceList((("gpt-5", GPT),)).find("gpt-5x") is None


def test_a_cost_is_exact_in_billionths() -> None:
    usage = Usage(1001, 7, cached_input_tokens=1000, reasoning_tokens=5)
    assert cost_of(usage, Price(0.00015, 0.0006)) == 1001 * 150 + 7 * 600
    assert cost_of(usage, Price(0.00015, 0.0006, cached_input=0.000015)) == 150 + 1000 * 15 + 7 * 600
    assert cost_of(Usage(1000, 1000), Price(1, 1)) == 2 * NANOS


def test_more_cached_tokens_than_input_cost_no_less_than_all_cached() -> None:
    assert cost_of(Usage(10, 0, cached_input_tokens=99), Price(1, 1, 0.5)) == 10 * 500_000


def test_amounts_are_readable() -> None:
    assert [money(amount, "EUR") for amount in (0, 0.005, 1234.5, 0.00001)] == [
        "0 EUR",
        "0.005 EUR",
        "1,234.5 EUR",
        "< 0.0001 EUR",
    ]
    assert money(2, "") == "2"
