"""Budgets of child runs: a budget is a cap on the tokens of a run and of all runs below it.

Before a model call, a run reserves what the call may use in every budget above it. The reservation is a column of the
run's own row and counts while the run has an owner: a claim that is lost, given up or replaced has none. The sums are
computed from the rows of the tree each time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents_app import hot_queries
from agents_app.models import Run
from agents_app.types import WaitingOn
from audit_app.kernel.nudges import nudge

# A run that waits looks again after this, even if the process that should let it continue has died meanwhile.
AGAIN_AFTER = timedelta(seconds=10)
_NO_LIMIT = 2**63


class _Row(NamedTuple):
    """A row of `LIST_TREE_USAGE`. used: input and output tokens of its recorded calls."""

    id: UUID
    parent_id: UUID
    workstream: str
    budget: int | None
    used: int
    reserved: int
    owner: UUID | None
    waiting_on: str

    @property
    def holds(self) -> int:
        """Return the tokens that it has reserved. A run that waits for its budget has noted those that it needs."""
        return self.reserved if self.owner else 0


@dataclass(frozen=True)
class Room:
    """The room that the budgets above a run leave to its next model call.

    refusal: the reason, for users, why there is nothing; else empty.
    left: tokens of the budget that leaves the least, with what is reserved; negative if a call exceeds it.
    is_reserved: it does not leave what the call needs, because other runs have reserved it.
    """

    refusal: str = ""
    left: int = _NO_LIMIT
    is_reserved: bool = False


class Tree:
    """The budgets of a tree of runs, without its root, and what is used and reserved of them."""

    def __init__(self, root_id: UUID) -> None:
        """Read the tree. The sums can be relied on while the row of the root is locked."""
        self._rows = {row[0]: _Row(*row) for row in hot_queries.LIST_TREE_USAGE.rows(root_id=root_id)}
        self._used: dict[UUID, int] = {}
        self._reserved: dict[UUID, int] = {}
        for row in self._rows.values():
            self._add(row, row.used, row.holds)

    def room_of(self, run_id: UUID, needed: int = 0) -> Room:
        """Return what is left to a run. needed: tokens of its call; what it has reserved itself does not count."""
        left, is_reserved = _NO_LIMIT, False
        for row in self._with_budget(run_id):
            if self._used[row.id] >= (row.budget or 0):
                whose = "The run" if row.id == run_id else f"The workstream {row.workstream}, to which it belongs,"
                return Room(f"{whose} has used up its budget of {row.budget:,} tokens.")
            others = self._reserved[row.id] - self._rows[run_id].holds
            left_of_this = (row.budget or 0) - self._used[row.id] - others
            left = min(left, left_of_this)
            is_reserved = is_reserved or (others > 0 and left_of_this < needed)
        return Room(left=left, is_reserved=is_reserved)

    def list_free(self) -> list[UUID]:
        """Return the runs that need not wait, oldest first: there is room for all of them, or never will be."""
        free = []
        for row in self._rows.values():
            if row.waiting_on == WaitingOn.BUDGET and not self.room_of(row.id, row.reserved).is_reserved:
                free.append(row.id)
                self._add(row, 0, row.reserved)
        return free

    def _add(self, row: _Row, used: int, reserved: int) -> None:
        """Add to the sums of a run and of those above it."""
        for above in self._up_from(row.id):
            self._used[above.id] = self._used.get(above.id, 0) + used
            self._reserved[above.id] = self._reserved.get(above.id, 0) + reserved

    def _with_budget(self, run_id: UUID) -> Iterator[_Row]:
        return (row for row in self._up_from(run_id) if row.budget is not None)

    def _up_from(self, run_id: UUID) -> Iterator[_Row]:
        """Yield a run and those above it, without the root."""
        row = self._rows.get(run_id)
        while row:
            yield row
            row = self._rows.get(row.parent_id)


def lock(run: Run) -> Tree:
    """Lock the root of a run's tree, in the caller's transaction, and return its budgets: nobody else reserves then."""
    root_id = run.root_id or run.pk
    hot_queries.LOCK_ROW.rows(run_id=root_id)
    return Tree(root_id)


def reserve(run: Run, owner: UUID, tokens: int) -> bool:
    """Reserve tokens for the next model call of a run, in place of those that it had. The caller has locked the tree.

    Each recorded step and each change of the owner gives them back. Return False if the claim has lost the run.
    """
    run.reserved_tokens = tokens
    return Run.objects.filter(pk=run.pk, owner=owner, fence=run.fence).update(reserved_tokens=tokens) == 1


def give_back(run: Run, on_free: tuple[str, str]) -> None:
    """Let runs continue for which there is room, after a run has given back its tokens. Owns its transaction.

    on_free: task that continues a run, and its queue.
    """
    if run.root_id and run.reserved_tokens:
        run.reserved_tokens = 0
        with transaction.atomic():
            hot_queries.LOCK_ROW.rows(run_id=run.root_id)  # what others have decided before is stored
            for run_id in _release(run.root_id):
                nudge(on_free[0], str(run_id), queue=on_free[1])


def _release(root_id: UUID) -> list[UUID]:
    """Make the waiting runs of a tree claimable for which there is room, and return them."""
    waiting = Run.objects.filter(root_id=root_id, owner=None, waiting_on=WaitingOn.BUDGET.value)
    if not waiting.exists():
        return []
    # Whoever holds one of these rows ends its run or writes to it, and may wait for another one of them.
    rows = waiting.filter(pk__in=Tree(root_id).list_free()).select_for_update(skip_locked=True, no_key=True)
    free = list(rows.values_list("pk", flat=True))
    Run.objects.filter(pk__in=free).update(ready_at=Now())
    return free
