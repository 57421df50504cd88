"""Queries of sessions and turns, without access checks: `sessions_app.access` checks what a request names."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from agents_app.models import Run
from sessions_app import hot_queries
from sessions_app.attachments import records as attachments
from sessions_app.conversation import branch_paths
from sessions_app.conversation.citations import Citation
from sessions_app.conversation.new_message import scoped_key
from sessions_app.identity import scopes
from sessions_app.models import Attachment, Branch, Checkpoint, Session, Turn


def list_sessions(
    owner: User, *, limit: int = 50, offset: int = 0, before: datetime | None = None
) -> tuple[Session, ...]:
    """Return the user's sessions with their agents, the last active first.

    before: only sessions last active before this time.
    """
    rows = sessions_of(owner).select_related("agent")
    if before is not None:
        rows = rows.filter(last_active_at__lt=before)
    return tuple(rows.order_by("-last_active_at")[offset : offset + limit])


def list_recent_sessions(owner: User) -> tuple[Session, ...]:
    """Return the user's last active sessions with their agents, as many as the list of a page shows."""
    if scopes.agents_of(owner) is not None:
        return list_sessions(owner, limit=hot_queries.RECENT_SESSIONS)
    return tuple(hot_queries.LIST_RECENT_SESSIONS.fetch(owner_id=owner.pk))


def list_pinned_sessions(owner: User) -> tuple[Session, ...]:
    """Return the sessions that the user has pinned, with their agents, the last pinned first."""
    return tuple(sessions_of(owner).filter(hot_queries.IS_PINNED).select_related("agent").order_by("-pinned_at"))


def count_sessions(owner: User) -> int:
    """Return the number of the user's sessions."""
    return sessions_of(owner).count()


def session_ids_of(owner: User) -> QuerySet[Session, UUID]:
    """Return the ids of the user's sessions, as a lazy query that can be a subquery."""
    return sessions_of(owner).order_by().values_list("id", flat=True)


def sessions_of(owner: User) -> QuerySet[Session]:
    """Return the user's sessions, without those that the scopes of the user's key leave out."""
    rows, agents = Session.objects.filter(owner=owner, deleted_at=None), scopes.agents_of(owner)
    return rows if agents is None else rows.filter(agent__agent_id__in=agents)


def run_ids_of(session_id: UUID) -> QuerySet[Turn, UUID | None]:
    """Return the ids of the runs that answer the session's messages, as a lazy query that can be a subquery."""
    return Turn.objects.filter(session_id=session_id, run_id__isnull=False).order_by().values_list("run_id", flat=True)


def sessions_by_id(session_ids: Collection[UUID]) -> dict[UUID, Session]:
    """Return the sessions by id, without those that are deleted."""
    return {session.pk: session for session in Session.objects.filter(pk__in=session_ids, deleted_at=None)}


def find_received_run(owner: User, idempotency_key: str) -> UUID | None:
    """Return the run of the user's message that was received under this key."""
    turn = hot_queries.FIND_TURN_BY_KEY.first(key=scoped_key(f"user:{owner.pk}", idempotency_key))
    return turn.run_id if turn else None


def root_of(run_id: UUID) -> UUID:
    """Return the id of the root of a run: its own if it has no parent."""
    return Run.objects.values_list("root_id", flat=True).get(pk=run_id) or run_id


def find_owner_id(session_id: UUID) -> int | None:
    """Return the owner's id; None if the session is deleted or no local user owns it."""
    return Session.objects.filter(pk=session_id, deleted_at=None).values_list("owner_id", flat=True).first()


ON_PATH = Q(is_off_path=False)


def list_turns(
    session: Session,
    *,
    limit: int = 50,
    offset: int = 0,
    before: tuple[int, int] | None = None,
    failed: bool = True,
    among: Q = ON_PATH,
) -> tuple[Turn, ...]:
    """Return the newest `limit` turns, the oldest first.

    offset: the number of newest turns to skip.
    before: only turns before this (ordinal, part).
    failed: with the turns of failed runs that have no text.
    among: which turns; those of the active branch (`branches.turns_of` for others).
    """
    rows = _turns_of(session, failed).filter(among)
    if before is not None:
        ordinal, part = before
        rows = rows.filter(Q(ordinal__lt=ordinal) | Q(ordinal=ordinal, part__lt=part))
    return tuple(reversed(rows.order_by("-ordinal", "-part")[offset : offset + limit]))


def find_checkpoint(session: Session) -> Checkpoint | None:
    """Return the newest summary on the path of the session's active branch."""
    return hot_queries.FIND_CHECKPOINT.first(session_id=session.id, ordinal=branch_paths.END)


def count_turns(session: Session, *, failed: bool = True, among: Q = ON_PATH) -> int:
    """Return the number of turns in the session. failed, among: as for `list_turns`."""
    return _turns_of(session, failed).filter(among).count()


def _turns_of(session: Session, failed: bool) -> QuerySet[Turn]:
    rows = Turn.objects.filter(session=session)
    # Answers that their schema rejected leave empty turns, so that each step has one.
    empty = Q(state="error") | Q(role="assistant", is_answer=False, tool_call_ids=None)
    return rows if failed else rows.exclude(empty, content="")


@dataclass(frozen=True)
class ListedBranch:
    """A branch of a session. parent, replaces_run: None for the first path, which has number 0.

    run: the first of its own; None if no run answers its first message.
    replaces_run: the run in whose place it begins.
    """

    number: int
    parent: int | None
    run: UUID | None
    replaces_run: UUID | None
    is_active: bool
    created_at: datetime


def list_branches(session: Session) -> list[ListedBranch]:
    """Return the branches of the session, the first path first. Two queries."""
    rows = list(Branch.objects.filter(session=session).order_by("number"))
    ordinals = {0, *(row.ordinal for row in rows), *(row.replaces for row in rows)}
    turns = Turn.objects.filter(session=session, ordinal__in=ordinals, part=0)
    runs = dict(turns.values_list("ordinal", "run_id"))
    active = session.active_branch
    return [
        ListedBranch(0, None, runs.get(0), None, active == 0, session.created_at),
        *(
            ListedBranch(
                row.number,
                row.parent,
                runs.get(row.ordinal),
                runs.get(row.replaces),
                active == row.number,
                row.created_at,
            )
            for row in rows
        ),
    ]


def attachments_of(turns: Iterable[Turn]) -> dict[UUID, tuple[Attachment, ...]]:
    """Return the files of the turns, by turn. Turns without files are left out, and cost no query."""
    return attachments.list_of([turn.pk for turn in turns if turn.attached and not turn.is_context])


def citations_of(turn: Turn) -> tuple[Citation, ...]:
    """Return the citations of the turn, in the order of their markers in the text."""
    return tuple(Citation.from_dict(stored) for stored in turn.citations)


def citations_by_step(run_id: UUID) -> dict[int, tuple[Citation, ...]]:
    """Return the citations of an ended run by step, without steps that cite nothing."""
    turns = Turn.objects.filter(run_id=run_id, role="assistant").only("citations").order_by("part")
    return {step: citations_of(turn) for step, turn in enumerate(turns) if turn.citations}
