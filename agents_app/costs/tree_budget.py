"""Budgets of child runs: a budget is a cap on the tokens of a run and of all runs below it.

Nothing is reserved. A run without a budget of its own draws from those above it, and each of them is compared with the
recorded calls before a model call. So runs that call a model at the same time exceed it by one call each at most.
"""

from django.db import connection

from agents_app.models import Run

# `above`: a child run and those above it, without the root. `below`: each of them with a budget, and all runs below.
_FIND_USED_UP = """
    WITH RECURSIVE
    above(id, parent_id, distance, workstream, budget, tokens) AS (
        SELECT id, parent_id, 0, workstream, budget_tokens, input_tokens + output_tokens
        FROM komand_run WHERE id = %s
        UNION ALL
        SELECT run.id, run.parent_id, distance + 1, run.workstream, run.budget_tokens,
               run.input_tokens + run.output_tokens
        FROM above JOIN komand_run run ON run.id = above.parent_id WHERE run.root_id IS NOT NULL
    ),
    below(top, id, tokens) AS (
        SELECT id, id, tokens FROM above WHERE budget IS NOT NULL
        UNION ALL
        SELECT below.top, run.id, run.input_tokens + run.output_tokens
        FROM below JOIN komand_run run ON run.parent_id = below.id
    )
    SELECT distance, workstream, budget FROM above JOIN below ON below.top = above.id
    GROUP BY distance, workstream, budget HAVING SUM(below.tokens) >= budget ORDER BY distance LIMIT 1
"""


def refusal(run: Run) -> str:
    """Return the reason, for users, why the budget of the run or of a run above it forbids a model call; else empty."""
    if not run.root_id:
        return ""
    with connection.cursor() as cursor:
        cursor.execute(_FIND_USED_UP, [Run._meta.pk.get_db_prep_value(run.pk, connection)])
        found = cursor.fetchone()
    if found is None:
        return ""
    distance, name, budget = found
    whose = f"The workstream {name}, to which it belongs," if distance else "The run"
    return f"{whose} has used up its budget of {budget:,} tokens."
