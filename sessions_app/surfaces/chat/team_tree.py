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
    first = max(0, total - MOST_SHOWN)
    _, views, _ = services.list_session_workstreams(session, offset=first, limit=MOST_SHOWN)
    costs = {view.launch_id: TreeCost(view.usage, view.cost) for view in views}
    for view in reversed(views):
        if view.parent_id in costs:
            costs[view.parent_id] += costs[view.launch_id]
    below: dict[UUID, list[ChildView]] = {}
    for view in views:
        below.setdefault(view.parent_id, []).append(view)
    roots = [parent_id for parent_id in below if parent_id not in costs]

    def members_of(parent_id: UUID, root_id: UUID) -> tuple[Member, ...]:
        return tuple(
            Member(
                WorkstreamCard(view),
                root_id,
                labels.duration(((view.ended_at or now) - (view.started_at or view.created_at)).total_seconds()),
                labels.cost(costs[view.launch_id].cost),
                _waited_for(view, below.get(view.launch_id, ())),
                members_of(view.launch_id, root_id),
            )
            for view in below.get(parent_id, ())
        )

    spent = [costs[view.launch_id].cost for root_id in roots for view in below[root_id]]
    known = [each for each in spent if each is not None]
    return TeamTree(
        tuple(Team(root_id, below[root_id][0].created_at, members_of(root_id, root_id)) for root_id in reversed(roots)),
        len(views),
        tuple(view.launch_id for view in views if WorkstreamCard(view).takes_messages),
        tuple(view for view in views if view.asks and view.ended_at is None),
        labels.cost(sum(known)) if known else "",
        max(0, total - len(views)),
    )


def _waited_for(view: ChildView, children: Sequence[ChildView]) -> str:
    """Return the names of the open workstreams that this one waits for, empty if it waits for something else."""
    if view.phase is not Phase.BLOCKED or view.asks or view.is_idle or view.is_paused or view.ended_at:
        return ""
    return ", ".join(child.name or child.workstream for child in children if child.ended_at is None)
