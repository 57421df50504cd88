"""Budgets of child runs, carved out of their parents': a child reserves its budget, and returns the rest at its end."""

from typing import Any

from django.db.models import Sum

from agents_app.models import Run
from agents_app.prices import NANOS

_COLUMNS = ("input_tokens", "output_tokens", "cost_nanos", "budget_tokens", "budget_nanos")


def remaining(run_id: Any) -> tuple[int | None, int | None]:
    """Return the tokens and the cost in nanos that a run may still use or reserve; None for no limit. Reads only."""
    row = Run.objects.only(*_COLUMNS).get(pk=run_id)
    if row.budget_tokens is None and row.budget_nanos is None:
        return None, None
    tokens, nanos = _used(row)
    return (
        None if row.budget_tokens is None else max(row.budget_tokens - tokens, 0),
        None if row.budget_nanos is None else max(row.budget_nanos - nanos, 0),
    )


def carved(run_id: Any, tokens: int | None, nanos: int | None) -> dict[str, int | None]:
    """Return the budget columns of a new child run. tokens, nanos: wanted; at most what its parent has left."""
    left_tokens, left_nanos = remaining(run_id)
    return {"budget_tokens": _least(tokens, left_tokens), "budget_nanos": _least(nanos, left_nanos)}


def refusal(run: Run) -> str:
    """Return the reason, for users, why the run's own budget forbids a model call; empty if it does not."""
    if run.budget_tokens is None and run.budget_nanos is None:
        return ""
    tokens, nanos = remaining(run.pk)
    if tokens == 0:
        return f"The run has used up its budget of {run.budget_tokens:,} tokens."
    if nanos == 0:
        return f"The run has used up its budget of {(run.budget_nanos or 0) / NANOS:g}."
    return ""


def final_columns(run: Run) -> dict[str, int]:
    """Return the columns by which an ended child run reserves no more than it has used."""
    if run.budget_tokens is None and run.budget_nanos is None:
        return {}
    row = Run.objects.only(*_COLUMNS).get(pk=run.pk)
    tokens, nanos = _used(row)
    kept = {} if row.budget_tokens is None else {"budget_tokens": tokens}
    return kept if row.budget_nanos is None else {**kept, "budget_nanos": nanos}


def _used(row: Run) -> tuple[int, int]:
    reserved = row.children.aggregate(tokens=Sum("budget_tokens"), nanos=Sum("budget_nanos"))
    tokens = row.input_tokens + row.output_tokens + (reserved["tokens"] or 0)
    return tokens, row.cost_nanos + (reserved["nanos"] or 0)


def _least(wanted: int | None, left: int | None) -> int | None:
    limits = [limit for limit in (wanted, left) if limit is not None]
    return min(limits) if limits else None
