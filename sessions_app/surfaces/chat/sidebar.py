"""The list of a user's sessions, grouped by day."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone

from audit_app.full_text.excerpts import Piece
from sessions_app import hot_queries, selectors
from sessions_app.approvals import permissions
from sessions_app.conversation import message_search
from sessions_app.conversation.list_marks import is_unread
from sessions_app.conversation.message_search import FoundSession
from sessions_app.conversation.open_requests import Activity, list_activity
from sessions_app.models import Session
from sessions_app.surfaces.chat import labels

SESSIONS_SHOWN = hot_queries.RECENT_SESSIONS
_ZONE_COOKIE = "komand_zone"


@dataclass(frozen=True)
class Entry:
    """One session in the list.

    ago: relative time.
    is_running: it has an open run.
    asks: it waits for the user: for an answer, or for a decision that the user may make.
    is_unread: something was written since the user has left it.

    snippet: snippet of the message in which a search has found its words.
    run_id: id of that message.
    """

    id: UUID
    title: str
    at: datetime
    ago: str
    is_running: bool
    is_current: bool
    asks: bool = False
    is_pinned: bool = False
    is_unread: bool = False
    snippet: tuple[Piece, ...] = ()
    run_id: UUID | None = None


@dataclass(frozen=True)
class Day:
    name: str
    entries: tuple[Entry, ...]


def read_days(request: HttpRequest, *, current: UUID | None = None, query: str = "") -> tuple[Day, ...]:
    """Return the user's newest sessions, by day in their time zone, behind the pinned ones.

    Two queries, three if some are pinned.
    query: the best sessions whose title or one message matches it.
    """
    assert request.user.is_authenticated  # noqa: S101 - required by the views
    matches = _matches(request.user, query)
    activity = list_activity([match.session.id for match in matches])
    asking = _asking(request.user, activity)
    now, entries = timezone.now().astimezone(_zone_of(request)), list[Entry]()
    for match in matches:
        session_id = match.session.id
        entry = entry_of(match.session, now, is_running=session_id in activity.running, current=current)
        entries.append(replace(entry, asks=session_id in asking, snippet=match.snippet, run_id=match.run_id))
    if query.strip():
        return (Day("Best matches", tuple(entries)),) if entries else ()
    pinned = tuple(entry for entry in entries if entry.is_pinned)
    others = [entry for entry in entries if not entry.is_pinned]
    grouped = groupby(others, key=lambda entry: labels.day_name(entry.at, now.date()))
    days = tuple(Day(name, tuple(group)) for name, group in grouped)
    return (Day("Pinned", pinned), *days) if pinned else days


def _matches(user: User, query: str) -> Sequence[FoundSession]:
    if query.strip():
        return message_search.search_sessions(user, query, limit=SESSIONS_SHOWN)
    recent = selectors.list_recent_sessions(user)
    pinned = selectors.list_pinned_sessions(user) if any(getattr(row, "has_pins", False) for row in recent[:1]) else ()
    return tuple(FoundSession(row) for row in (*pinned, *(row for row in recent if row.pinned_at is None)))


def _asking(user: User, activity: Activity) -> frozenset[UUID]:
    """Return the sessions that wait for an answer, or for a decision that the user may make."""
    may_decide = bool(activity.approvals) and bool(permissions.allowed_decisions(user, user.pk))
    return activity.questions | activity.approvals if may_decide else activity.questions


def count_asking(days: Iterable[Day]) -> int:
    """Return the number of chats in the list that wait for the user."""
    return sum(entry.asks for day in days for entry in day.entries)


def entry_of(session: Session, now: datetime, *, is_running: bool, current: UUID | None) -> Entry:
    at = session.last_active_at.astimezone(now.tzinfo)
    ago, is_current = labels.time_ago(at, now), session.id == current
    entry = Entry(session.id, title_of(session), at, ago, is_running, is_current)
    return replace(entry, is_pinned=session.pinned_at is not None, is_unread=is_unread(session))


def title_of(session: Session) -> str:
    return session.title or "New chat"


def _zone_of(request: HttpRequest) -> ZoneInfo:
    """Return the time zone in the browser's cookie, else UTC."""
    try:
        return ZoneInfo(request.COOKIES.get(_ZONE_COOKIE, "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError):  # an unknown zone, or not the name of one
        return ZoneInfo("UTC")
