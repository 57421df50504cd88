"""Budgets of tokens and costs of a robot: reserved before each model call, so that parallel calls share them."""

import threading
from dataclasses import dataclass, field

from agents_app.robots.failures import RobotError
from agents_app.types import Limits, Usage
from agents_app.types.prices import NANOS, Price, PriceList, cost_of


@dataclass
class Ledger:
    """The use of a robot and its copies.

    cost: in the unit of the prices.
    tokens, cost: with what is reserved.
    """

    usage: Usage = Usage()
    calls: int = 0
    tokens: int = 0
    cost_nanos: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def cost(self) -> float:
        return self.cost_nanos / NANOS


@dataclass(frozen=True)
class Budget:
    """Limits of all runs of a robot; None for no limit. cost: in the unit of the prices."""

    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True)
class Reservation:
    """The tokens of one model call, at most. output: limit of its answer; None: none was needed."""

    input: int
    output: int | None
    cost_nanos: int = 0

    @property
    def tokens(self) -> int:
        return self.input + (self.output or 0)


def reserve(
    ledger: Ledger, budget: Budget, price: Price | None, *, input_tokens: int, wanted: int | None
) -> Reservation | str:
    """Reserve a model call, or return why the budget does not allow it.

    wanted: the most tokens that the answer may have by itself. With a budget it gets at most what is left of that.
    """
    if budget.tokens is None and budget.cost is None:
        return Reservation(input_tokens, wanted)
    output = wanted or Limits.answer_tokens
    with ledger.lock:
        if budget.tokens is not None:
            output = min(output, budget.tokens - ledger.tokens - input_tokens)
        if budget.cost is not None and price is not None:
            left = round(budget.cost * NANOS) - ledger.cost_nanos - cost_of(Usage(input_tokens), price)
            per_token = price.output * NANOS / 1000
            output = min(output, int(left // per_token)) if per_token else output if left >= 0 else 0
        if output < 1:
            tokens = "" if budget.tokens is None else f"{budget.tokens:,} tokens"
            cost = "" if budget.cost is None else f"a cost of {budget.cost:g}"
            limits = " and ".join(filter(None, (tokens, cost)))
            return (
                f"The next model call, with about {input_tokens:,} tokens, does not fit into the robot's budget of "
                f"{limits}: {ledger.tokens:,} tokens and {ledger.cost:g} are used. Raise it, or clear the history."
            )
        nanos = cost_of(Usage(input_tokens, output), price) if price else 0
        ledger.tokens += input_tokens + output
        ledger.cost_nanos += nanos
        return Reservation(input_tokens, output, nanos)


def settle(
    ledger: Ledger, budget: Budget, reserved: Reservation, usage: Usage, price: Price | None, *, text: str = ""
) -> None:
    """Replace a reservation by the use that the server reported.

    text: received. If the server reports no tokens, the reserved input counts, and one token per four characters.
    """
    used = usage if usage.input_tokens or usage.output_tokens else Usage(reserved.input, len(text) // 4)
    is_reserved = budget.tokens is not None or budget.cost is not None
    with ledger.lock:
        ledger.calls += 1
        ledger.usage += usage
        ledger.tokens += used.input_tokens + used.output_tokens - reserved.tokens * is_reserved
        ledger.cost_nanos += (cost_of(used, price) if price else 0) - reserved.cost_nanos


def check(budget: Budget, prices: PriceList, model: str) -> None:
    """Raise RobotError for a cost budget of a model without a price: it could not be kept."""
    if budget.cost is not None and prices.find(model) is None:
        message = (
            f"The model {model!r} has no price, so a cost budget cannot be kept. Set a price, or use a token budget."
        )
        raise RobotError(message, code="no_price")
