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
    tree = list(rows.values_list("pk", "parent_id", "input_tokens", "output_tokens"))
    parents = {run_id: parent_id for run_id, parent_id, *_ in tree}
    used = dict.fromkeys(parents, 0)
    for run_id, _, *tokens in tree:
        for above in _upwards(run_id, parents):
            used[above] += sum(tokens)
    for above in _upwards(run.pk, parents):
        if above in budgets and used[above] >= budgets[above]:
            name = rows.values_list("workstream", flat=True).get(pk=above)
            whose = "The run" if above == run.pk else f"The workstream {name}, to which it belongs,"
            return f"{whose} has used up its budget of {budgets[above]:,} tokens."
    return ""


def _upwards(run_id: UUID | None, parents: Mapping[UUID, UUID | None]) -> Iterator[UUID]:
    """Yield a child run and those above it, without the root."""
    while run_id is not None and run_id in parents:
        yield run_id
        run_id = parents[run_id]
