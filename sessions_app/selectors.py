"""Read sessions and their turns. For what a request may see, go through `access` first."""

from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q

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


def session_ids_of(owner: User) -> frozenset[UUID]:
    """The ids of all the user's sessions."""
    return frozenset(Session.objects.filter(owner=owner, deleted_at=None).values_list("id", flat=True))


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
