"""The list of a user's sessions, grouped by day."""

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import HttpRequest
from django.utils import timezone

from agents_app import selectors as agents
from sessions_app import selectors
from sessions_app.models import Session
from sessions_app.surfaces.chat import labels

SESSIONS_SHOWN = 100
_ZONE_COOKIE = "komand_zone"


@dataclass(frozen=True)
class Entry:
    """One session in the list. ago: relative time; is_running: it has an open run."""

    id: UUID
    title: str
    at: datetime
    ago: str
    is_running: bool
    is_current: bool


@dataclass(frozen=True)
class Day:
    name: str
    entries: tuple[Entry, ...]


def read_days(request: HttpRequest, *, current: UUID | None = None, query: str = "") -> tuple[Day, ...]:
    """Return the user's newest sessions, by day in their time zone. Two queries."""
    assert request.user.is_authenticated  # noqa: S101 - required by the views
    sessions = selectors.list_sessions(request.user, limit=SESSIONS_SHOWN, query=query.strip())
    busy = agents.list_busy([session.id for session in sessions])
    now = timezone.now().astimezone(_zone_of(request))
    entries = [entry_of(session, now, is_running=session.id in busy, current=current) for session in sessions]
    grouped = groupby(entries, key=lambda entry: labels.day_name(entry.at, now.date()))
    return tuple(Day(name, tuple(group)) for name, group in grouped)


def entry_of(session: Session, now: datetime, *, is_running: bool, current: UUID | None) -> Entry:
    at = session.last_active_at.astimezone(now.tzinfo)
    return Entry(session.id, title_of(session), at, labels.time_ago(at, now), is_running, session.id == current)


def title_of(session: Session) -> str:
    return session.title or "New chat"


def _zone_of(request: HttpRequest) -> ZoneInfo:
    """Return the time zone in the browser's cookie, else UTC."""
    try:
        return ZoneInfo(request.COOKIES.get(_ZONE_COOKIE, "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError):  # an unknown zone, or not the name of one
        return ZoneInfo("UTC")
