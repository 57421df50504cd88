"""Budgets of child runs: a budget is a cap on the tokens of a run and of all runs below it.

Nothing is reserved. A run without a budget of its own draws from those above it, and each of them is compared with the
recorded calls before a model call. So runs that call a model at the same time exceed it by one call each at most.
"""

from collections.abc import Iterator, Mapping
from uuid import UUID

from agents_app import hot_queries
from agents_app.models import Run


def refusal(run: Run) -> str:
    """Return the reason, for users, why the budget of the run or of a run above it forbids a model call; else empty."""
    budgets = dict(hot_queries.LIST_BUDGETS.rows(root_id=run.root_id)) if run.root_id else {}
    if not budgets:
        return ""
    rows = Run.objects.filter(root_id=run.root_id).order_by()
    tree = {row.pk: row for row in rows.only("parent_id", "workstream", "input_tokens", "output_tokens")}
    used = dict.fromkeys(tree, 0)
    for row in tree.values():
        for above in _upwards(row.pk, tree):
            used[above.pk] += row.input_tokens + row.output_tokens
    for above in _upwards(run.pk, tree):
        if above.pk in budgets and used[above.pk] >= budgets[above.pk]:
            whose = "The run" if above.pk == run.pk else f"The workstream {above.workstream}, to which it belongs,"
            return f"{whose} has used up its budget of {budgets[above.pk]:,} tokens."
    return ""


def _upwards(run_id: UUID | None, tree: Mapping[UUID, Run]) -> Iterator[Run]:
    """Yield a child run and those above it, without the root."""
    while run_id and (run := tree.get(run_id)):
        yield run
        run_id = run.parent_id
