"""Reads of the timeline of stored events. `services.emit` writes it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from audit_app import hot_queries
from audit_app.event_types import event_types
from audit_app.hot_queries import EVENT_COLUMNS, events_after
from audit_app.hot_queries import EVENTS_OF_A_PAGE as EVENTS_OF_A_PAGE
from audit_app.kernel.compiled_queries import padded
from audit_app.models import Event, TimelineHead

T = TypeVar("T")

# Terms of one query: far below the limit of SQLite's parser for one expression.
_SESSIONS_A_QUERY = 256


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """A stored event.

    seq: its gapless number in the session.
    ts: Unix milliseconds, strictly rising in the session.
    """

    session_id: UUID
    seq: int
    ts: int
    type: str
    run_id: UUID | None
    parent_run_id: UUID | None
    workstream: str
    step: int | None
    actor: str
    payload: dict[str, Any]

    @property
    def ends_run(self) -> bool:
        event_type = event_types.find(self.type)
        return event_type is not None and event_type.terminal

    @property
    def shows_run_open(self) -> bool:
        """True for events of an open run itself. Others, such as a late delivery, may follow its end."""
        return self.run_id is not None and self.type.startswith("run.") and not self.ends_run


def find_head(session_id: UUID) -> int:
    """Return the last `seq` of the session, 0 if it has no events."""
    heads = hot_queries.FIND_HEAD.rows(session_id=session_id)
    return int(heads[0][0]) if heads else 0


def list_heads(session_ids: Collection[UUID]) -> dict[UUID, int]:
    """Return the last `seq` of each session that has events."""
    heads: dict[UUID, int] = {}
    for some in _batches(session_ids):
        heads.update(TimelineHead.objects.filter(pk__in=some).values_list("session_id", "seq"))
    return heads


def list_events(session_id: UUID, *, after: int = 0) -> list[KeptEvent]:
    """Return the session's next EVENTS_OF_A_PAGE events with a higher `seq` than `after`, in order."""
    return [KeptEvent(*row) for row in hot_queries.LIST_EVENTS.rows(session_id=session_id, after=after)]


def list_events_of_types(session_id: UUID, types: Collection[str], *, until: int) -> list[KeptEvent]:
    """Return the session's events of these types up to and including that `seq`, in order."""
    return _read(Event.objects.filter(session_id=session_id, type__in=types, seq__lte=until).order_by("seq"))


def list_newest(session_ids: Collection[UUID], types: Collection[str], *, since: int, limit: int) -> list[KeptEvent]:
    """Return the newest events of these types in these sessions, from that millisecond on, the oldest first."""
    rows = Event.objects.filter(session_id__in=session_ids, type__in=types, ts__gte=since)
    return _read(rows.order_by("-ts", "-id")[:limit])[::-1]


def find_place(session_id: UUID, *, ts: int) -> tuple[int, int]:
    """Return (`seq`, `ts`) of the session's last event up to and including that millisecond; zeros if there is none."""
    rows = Event.objects.filter(session_id=session_id, ts__lte=ts).order_by("-seq")
    return rows.values_list("seq", "ts").first() or (0, 0)


def list_news(positions: Mapping[UUID, int]) -> list[KeptEvent]:
    """Return the events after each session's position, in order within a session. One query per 256 sessions."""
    events: list[KeptEvent] = []
    for some in _batches(positions.items()):
        places = padded(some)
        values: dict[str, Any] = {f"session_{n}": session_id for n, (session_id, _) in enumerate(places)}
        values |= {f"seq_{n}": seq for n, (_, seq) in enumerate(places)}
        events += [KeptEvent(*row) for row in events_after(len(places)).rows(**values)]
    return events


def list_events_of_run(run_id: UUID, *, until: int) -> list[KeptEvent]:
    """Return the run's events up to and including that `seq`, in order."""
    return _read(Event.objects.filter(run_id=run_id, seq__lte=until).order_by("seq"))


def list_events_of_runs(run_ids: Collection[UUID], *, until: int) -> list[KeptEvent]:
    """Return the events of these runs up to and including that `seq`, in order."""
    return _read(Event.objects.filter(run_id__in=run_ids, seq__lte=until).order_by("seq"))


def find_first_of_run(run_id: UUID) -> KeptEvent | None:
    """Return the run's first event, or None once retention has deleted it."""
    found = _read(Event.objects.filter(run_id=run_id).order_by("seq")[:1])
    return found[0] if found else None


def find_last(session_id: UUID, event_type: str, *, until: int) -> KeptEvent | None:
    """Return the session's last event of that type up to and including that `seq`, without those of child runs."""
    rows = hot_queries.FIND_LAST.rows(session_id=session_id, event_type=event_type, until=until)
    return KeptEvent(*rows[0]) if rows else None


def has_ended(run_id: UUID) -> bool:
    """Return whether the timeline holds the run's terminal event."""
    terminal = [event_type.name for event_type in event_types if event_type.terminal]
    return Event.objects.filter(run_id=run_id, type__in=terminal).exists()


def _read(rows: QuerySet[Event]) -> list[KeptEvent]:
    return [KeptEvent(*row) for row in rows.values_list(*EVENT_COLUMNS)]


def _batches(items: Collection[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, _SESSIONS_A_QUERY)):
        yield batch
