"""Prices of models and the cost of a call. Pure.

Prices are per 1,000 tokens, in the currency of the installation. Costs are whole billionths of its unit, so that sums
over millions of calls are exact.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from agents_app.types import Usage

NANOS = 1_000_000_000  # of one unit of the currency


@dataclass(frozen=True)
class Price:
    """Prices per 1,000 tokens. cached_input: of input tokens that the server had cached; None: as other input."""

    input: float
    output: float
    cached_input: float | None = None


# The prices that a provider had by default in earlier versions. They still stand for none.
EARLIER_UNSET = Price(1.0, 1.0)


@dataclass(frozen=True)
class PriceList:
    """The prices of a provider.

    models: by the name of a model or a pattern of names, in which `*` stands for any text
    others: price of models that no name and no pattern fits; None if they have no price
    """

    models: tuple[tuple[str, Price], ...] = ()
    others: Price | None = None

    def find(self, model: str) -> Price | None:
        """Return the price of a model: by its name, else by the longest pattern that fits, else that of all others."""
        fitting = [(name == model, len(name), price) for name, price in self.models if fits(name, model)]
        return max(fitting, key=lambda entry: entry[:2])[2] if fitting else self.others


def fits(name: str, model: str) -> bool:
    """Return whether a name, or a pattern in which only `*` is special, is that of the model."""
    return name == model or fnmatchcase(model, name.replace("[", "[[]").replace("?", "[?]"))


def cost_of(usage: Usage, price: Price) -> int:
    """Return the cost of a call in billionths. Cached tokens are part of the input, reasoning is part of the output."""
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    per_thousand = (usage.input_tokens - cached) * price.input + cached * cached_price
    return round((per_thousand + usage.output_tokens * price.output) * (NANOS // 1000))


def money(amount: float, currency: str) -> str:
    """Return an amount for people, such as `0.005 EUR`. currency: empty for none."""
    number = "< 0.0001" if 0 < amount < 0.0001 else f"{amount:,.4f}".rstrip("0").rstrip(".")
    return f"{number} {currency}".rstrip()
