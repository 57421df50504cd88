"""The tree of a session's workstreams, for the panel of the page: read only when a user opens it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agents_app.types.child_runs import ChildView, Phase
from agents_app.types.run_cost import TreeCost
from sessions_app import services
from sessions_app.models import Session
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.workstream_cards import WorkstreamCard

MOST_SHOWN = 200  # of the newest workstreams, with the others of their answers


@dataclass(frozen=True)
class Member:
    """A workstream in the tree.

    time: since its start, or how long it took.
    spent: its cost together with that of those below it; empty without a price.
    waits_for: names of its own workstreams that it waits for.
    """

    card: WorkstreamCard
    root_id: UUID
    time: str
    spent: str
    waits_for: str
    members: tuple["Member", ...]


@dataclass(frozen=True)
class Team:
    """The workstreams of one answer. run_id: of its root run."""

    run_id: UUID
    began_at: datetime
    members: tuple[Member, ...]


@dataclass(frozen=True)
class TeamTree:
    """The workstreams of a session, newest answer first.

    working: ids of those that take messages.
    asking: those that wait for a person.
    left_out: number of older workstreams that are not shown.
    """

    teams: tuple[Team, ...]
    count: int
    working: tuple[UUID, ...]
    asking: tuple[ChildView, ...]
    spent: str
    left_out: int


def read_team_tree(session: Session, now: datetime) -> TeamTree:
    """Return the tree. Five queries at most, however many workstreams there are."""
    _, _, total = services.list_session_workstreams(session, offset=0, limit=0)
    _, views, _ = services.list_session_workstreams(session, offset=max(0, total - MOST_SHOWN), limit=MOST_SHOWN)
    tree = _Tree(views, now)
    return TeamTree(
        tree.teams(),
        len(views),
        tuple(view.launch_id for view in views if WorkstreamCard(view).takes_messages),
        tuple(view for view in views if view.asks and view.ended_at is None),
        tree.spent(),
        max(0, total - len(views)),
    )


class _Tree:
    """Views of workstreams by their parents, with what each has cost together with those below it."""

    def __init__(self, views: Sequence[ChildView], now: datetime) -> None:
        """Sum the costs. views: of whole trees, parents before their children."""
        self._now = now
        self._costs = {view.launch_id: TreeCost(view.usage, view.cost) for view in views}
        self._below: dict[UUID, list[ChildView]] = {}
        for view in views:
            self._below.setdefault(view.parent_id, []).append(view)
        for view in reversed(views):
            if view.parent_id in self._costs:
                self._costs[view.parent_id] += self._costs[view.launch_id]
        self._roots = [parent_id for parent_id in self._below if parent_id not in self._costs]

    def teams(self) -> tuple[Team, ...]:
        """Return the workstreams by their answers, newest first."""
        newest = reversed(self._roots)
        return tuple(Team(root, self._below[root][0].created_at, self._members_of(root, root)) for root in newest)

    def spent(self) -> str:
        """Return the cost of all workstreams, empty without a price."""
        costs = [self._costs[view.launch_id].cost for root_id in self._roots for view in self._below[root_id]]
        known = [cost for cost in costs if cost is not None]
        return labels.cost(sum(known)) if known else ""

    def _members_of(self, parent_id: UUID, root_id: UUID) -> tuple[Member, ...]:
        return tuple(self._member_of(view, root_id) for view in self._below.get(parent_id, ()))

    def _member_of(self, view: ChildView, root_id: UUID) -> Member:
        seconds = ((view.ended_at or self._now) - (view.started_at or view.created_at)).total_seconds()
        spent = labels.cost(self._costs[view.launch_id].cost)
        waits_for = _waited_for(view, self._below.get(view.launch_id, ()))
        below = self._members_of(view.launch_id, root_id)
        return Member(WorkstreamCard(view), root_id, labels.duration(seconds), spent, waits_for, below)


def _waited_for(view: ChildView, children: Sequence[ChildView]) -> str:
    """Return the names of the open workstreams that this one waits for, empty if it waits for something else."""
    if view.phase is not Phase.BLOCKED or view.asks or view.is_idle or view.is_paused or view.ended_at:
        return ""
    return ", ".join(child.name or child.workstream for child in children if child.ended_at is None)
