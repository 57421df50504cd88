"""Records of usage: each model call is priced and added to the sums of its day, in the transaction that records it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, UUIDField

from agents_app.models import Run
from agents_app.types import Usage
from agents_app.types.prices import PriceList, cost_of

INSTALLATION = "installation"
_SHARDS = 8

_ADD_USAGE = """
    INSERT INTO komand_daily_usage (day, conversation_id, agent_id, actor, provider, model, calls, unpriced_calls,
        input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, cost_nanos)
    VALUES (%s, %s, %s, %s, %s, %s, 1, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (day, conversation_id, agent_id, actor, provider, model) DO UPDATE SET
        calls = komand_daily_usage.calls + 1,
        unpriced_calls = komand_daily_usage.unpriced_calls + excluded.unpriced_calls,
        input_tokens = komand_daily_usage.input_tokens + excluded.input_tokens,
        cached_input_tokens = komand_daily_usage.cached_input_tokens + excluded.cached_input_tokens,
        output_tokens = komand_daily_usage.output_tokens + excluded.output_tokens,
        reasoning_tokens = komand_daily_usage.reasoning_tokens + excluded.reasoning_tokens,
        cost_nanos = komand_daily_usage.cost_nanos + excluded.cost_nanos
"""
_ADD_TOTALS = """
    INSERT INTO komand_cost_total (scope, day, shard, cost_nanos) VALUES {rows}
    ON CONFLICT (scope, day, shard) DO UPDATE SET cost_nanos = komand_cost_total.cost_nanos + excluded.cost_nanos
"""


@dataclass(frozen=True)
class Payer:
    """The conversation, the agent and the actor to which a call is charged.

    agents_above: public ids of other agents, whose caps count it too.
    """

    conversation_id: UUID
    agent_id: str
    actor: str
    agents_above: Sequence[str] = ()

    @classmethod
    def of(cls, run: Run) -> "Payer":
        return cls(run.conversation_id, run.agent.agent_id, run.actor, agents_above(run))


@dataclass(frozen=True)
class CallCost:
    """A model call with its cost, in billionths.

    nanos: at the prices of its time; None if its model has no price.
    counted_nanos: the cost for budgets and caps, which also count servers without usage; 0 without a price
    """

    provider: str
    model: str
    usage: Usage
    nanos: int | None
    counted_nanos: int

    def changes(self) -> dict[str, Any]:
        """Return the changes of the run's columns."""
        return {
            "input_tokens": F("input_tokens") + self.usage.input_tokens,
            "output_tokens": F("output_tokens") + self.usage.output_tokens,
            "cost_nanos": F("cost_nanos") + (self.nanos or 0),
            "priced_calls": F("priced_calls") + int(self.nanos is not None),
        }


def price_call(provider: str, model: str, prices: PriceList, usage: Usage, *, text: str = "") -> CallCost:
    """Return a call with its cost.

    text: text of the response. If the server reports no tokens, budgets count it as one output token per four
        characters.
    """
    price = prices.find(model)
    if price is None:
        return CallCost(provider, model, usage, None, 0)
    counted = usage if usage.input_tokens or usage.output_tokens else Usage(output_tokens=len(text) // 4)
    return CallCost(provider, model, usage, cost_of(usage, price), cost_of(counted, price))


def agents_above(run: Run) -> Sequence[str]:
    """Return the public ids of the other agents whose runs are above a run."""
    return run.child_spec.agents_above if run.parent_id else ()


def add_call(payer: Payer, call: CallCost) -> None:
    """Add a call to the sums of this day, in the caller's transaction."""
    usage, day = call.usage, connection.ops.adapt_datefield_value(today())
    conversation_id = UUIDField().get_db_prep_value(payer.conversation_id, connection)
    is_unpriced = int(call.nanos is None)
    tokens = (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.reasoning_tokens)
    keys = (day, conversation_id, payer.agent_id, payer.actor, call.provider, call.model)
    shard, scopes = _shard(payer.conversation_id), scopes_of(payer)
    totals = [(scope, day, shard, call.counted_nanos) for scope in scopes]
    with connection.cursor() as cursor:
        cursor.execute(_ADD_USAGE, [*keys, is_unpriced, *tokens, call.nanos or 0])
        if call.counted_nanos:
            # Rows are locked in the order of the values: all transactions have that of `scopes_of`.
            rows = ", ".join(["(%s, %s, %s, %s)"] * len(totals))
            cursor.execute(_ADD_TOTALS.format(rows=rows), [value for row in totals for value in row])


def scopes_of(payer: Payer) -> Iterator[str]:
    """Yield the scopes of the totals to which a call belongs. Senders of channels have none of their own."""
    yield INSTALLATION
    for agent_id in sorted({payer.agent_id, *payer.agents_above}):
        yield f"agent:{agent_id}"
    if payer.actor.startswith("user:"):
        yield payer.actor


def today() -> date:
    """Return the day of the records: in UTC."""
    return datetime.now(UTC).date()


def _shard(conversation_id: UUID) -> int:
    return conversation_id.int % _SHARDS
