"""Read sessions and their turns. For what a request may see, go through `access` first."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from sessions_app.conversation.citations import Citation
from sessions_app.models import Session, Turn


def list_sessions(
    owner: User, *, limit: int = 50, offset: int = 0, before: datetime | None = None, query: str = ""
) -> tuple[Session, ...]:
    """The user's sessions, the last active first. before: only those last active earlier; query: words of the title."""
    rows = Session.objects.select_related("agent").filter(owner=owner, deleted_at=None)
    if before is not None:
        rows = rows.filter(last_active_at__lt=before)
    if query:
        rows = rows.filter(title__icontains=query)
    return tuple(rows.order_by("-last_active_at")[offset : offset + limit])


def count_sessions(owner: User) -> int:
    return Session.objects.filter(owner=owner, deleted_at=None).count()


def session_ids_of(owner: User) -> QuerySet[Session, UUID]:
    """The ids of all the user's sessions. Not read yet: usable as a subquery."""
    return Session.objects.filter(owner=owner, deleted_at=None).order_by().values_list("id", flat=True)


def sessions_by_id(session_ids: Collection[UUID]) -> dict[UUID, Session]:
    """Those of the sessions that are not deleted."""
    return {session.pk: session for session in Session.objects.filter(pk__in=session_ids, deleted_at=None)}


def find_owner_id(session_id: UUID) -> int | None:
    """Whose session it is; None when it is deleted, or a channel's sender's."""
    return Session.objects.filter(pk=session_id, deleted_at=None).values_list("owner_id", flat=True).first()


def list_turns(
    session: Session, *, limit: int = 50, offset: int = 0, before: tuple[int, int] | None = None
) -> tuple[Turn, ...]:
    """The newest `limit` turns, oldest first. before: only those placed before this (ordinal, part); offset: how many
    of the newest to leave out."""
    rows = Turn.objects.filter(session=session)
    if before is not None:
        ordinal, part = before
        rows = rows.filter(Q(ordinal__lt=ordinal) | Q(ordinal=ordinal, part__lt=part))
    return tuple(reversed(rows.order_by("-ordinal", "-part")[offset : offset + limit]))


def count_turns(session: Session) -> int:
    return Turn.objects.filter(session=session).count()


def find_answer(session: Session, run_id: UUID) -> Turn | None:
    """The turn that ended a run, once it is stored."""
    return Turn.objects.filter(session=session, run_id=run_id, is_answer=True).first()


def citations_of(turn: Turn) -> tuple[Citation, ...]:
    """What the turn's text cites, in the order of its markers."""
    return tuple(Citation.from_dict(stored) for stored in turn.citations)


def citations_by_step(run_id: UUID) -> dict[int, tuple[Citation, ...]]:
    """What an ended run's texts cite, by the step that said them; steps that cite nothing are left out."""
    turns = Turn.objects.filter(run_id=run_id, role="assistant").only("citations").order_by("part")
    return {step: citations_of(turn) for step, turn in enumerate(turns) if turn.citations}
