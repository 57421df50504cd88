"""The messages of sessions in the index of the full-text search: written in the background, behind the messages.

A message waits for nothing: it is found about a second after it is stored, and its session's title with its first
message. Messages that a release without the index has stored are indexed from the newest to the oldest, in batches so
small that no writer waits for them.

Ids of turns rise with time, so two of them say what is done (`SearchProgress`). A transaction may commit turns late:
the newest ones are looked at again.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from audit_app.full_text import index
from audit_app.full_text.index import Entry
from audit_app.kernel import single_holder
from audit_app.kernel.ids import first_id_at, new_id
from audit_app.models import SearchEntry, SearchProgress
from sessions_app import hot_queries
from sessions_app.models import Session, Turn

logger = logging.getLogger(__name__)

SEARCHED = Q(role="user") | Q(role="assistant")
_KIND = "turns"
_BATCH = 50
_STEP_SECONDS = 0.2  # of work in a second
_OVERLAP = timedelta(seconds=30)  # within which a transaction commits the turns whose ids it has made
_CHECK_SECONDS, _OTHERS_SECONDS = 300.0, 10.0


def scope_of(owner_id: int) -> str:
    """Return the scope of the messages of a user's sessions."""
    return f"turns of user {owner_id}"


def titles_of(owner_id: int) -> str:
    """Return the scope of the titles of a user's sessions."""
    return f"titles of user {owner_id}"


def put_title(session: Session, title: str) -> None:
    """Index the title of a session, in the caller's transaction."""
    if session.owner_id is not None:
        index.put([Entry(session.pk, titles_of(session.owner_id), title)])


def put_again(turn_id: UUID) -> None:
    """Index a message anew whose text was changed, unless it is not indexed yet. In the caller's transaction."""
    if index.indexed([turn_id]):
        index.put(list(_entries(_turns().filter(pk=turn_id))))


def catch_up() -> int:
    """Index all messages that are not indexed. Owns its transactions. Return their number."""
    indexer, count = Indexer(), 0
    while found := indexer.index_some():
        count += found
    return count


def count_missing() -> int:
    """Return the number of messages that are not indexed."""
    return _missing().count()


@dataclass
class Indexer:
    """Indexes messages of this installation, one process at a time. The lock only avoids duplicate work."""

    token: str = field(default_factory=lambda: str(new_id()))
    _idle_until: float = 0.0
    _idle_at: UUID | None = None  # newest turn while all were indexed

    @property
    def indexed_until(self) -> UUID:
        """Return the newest turn that need not be looked at now."""
        return self._idle_at if self._idle_at and time.monotonic() < self._idle_until else UUID(int=0)

    def step(self) -> None:
        """Index for a fraction of a second what is missing. Called about each second; nearly free if nothing is."""
        newest = next((turn_id for (turn_id,) in hot_queries.FIND_NEWEST_TURN.rows()), None)
        if time.monotonic() < self._idle_until and newest == self._idle_at:
            return
        if not single_holder.is_held("search-index", self.token):
            self._idle_at, self._idle_until = newest, time.monotonic() + _OTHERS_SECONDS
            return
        until = time.monotonic() + _STEP_SECONDS
        while count := self.index_some():
            if count < _BATCH or time.monotonic() >= until:
                return
        if newest is None or newest < first_id_at(timezone.now() - _OVERLAP):
            self._idle_at, self._idle_until = newest, time.monotonic() + _CHECK_SECONDS

    def index_some(self) -> int:
        """Index one batch: of new messages, or of older ones if there are none. Return their number; 0 if done."""
        now = timezone.now()
        start = first_id_at(now - _OVERLAP)
        progress, _ = SearchProgress.objects.get_or_create(kind=_KIND, defaults={"newest": start, "oldest": start})
        return _index_new(progress, start) or _index_older(progress)


_indexer = Indexer()


SWEPT = (hot_queries.FIND_LATER_TURN,)


def swept_values() -> dict[str, UUID]:
    return {"after": _indexer.indexed_until}


def sweep(_observer: object) -> None:
    """Take the next step; called by the sweepers each second, if SWEPT finds a row."""
    _indexer.step()


def _index_new(progress: SearchProgress, settled: UUID) -> int:
    """Index a batch behind `progress.newest`. settled: no turn below it can still be committed."""
    found = list(_missing().filter(pk__gt=progress.newest).order_by("pk")[:_BATCH])
    newest = min(found[-1].pk, settled) if len(found) == _BATCH else settled
    if found:
        with transaction.atomic():
            index.put(list(_entries(found)))
    if newest > progress.newest and (found or newest.int - progress.newest.int > _far()):
        SearchProgress.objects.filter(pk=_KIND, newest=progress.newest).update(newest=newest)
    return len(found)


def _far() -> int:
    """Return a distance of ids, of ten minutes, for which the progress is stored while nothing happens."""
    return first_id_at(timezone.now()).int - first_id_at(timezone.now() - timedelta(minutes=10)).int


def _index_older(progress: SearchProgress) -> int:
    if progress.is_complete:
        return 0
    found = list(_missing().filter(pk__lte=progress.oldest).order_by("-pk")[:_BATCH])
    with transaction.atomic():
        index.put(list(_entries(found)), is_older=True)
        is_complete = len(found) < _BATCH
        oldest = found[-1].pk if found else progress.oldest
        SearchProgress.objects.filter(pk=_KIND).update(oldest=oldest, is_complete=is_complete)
    if is_complete:
        logger.info("the index of the search has all messages")
    return len(found)


def _turns() -> QuerySet[Turn]:
    rows = Turn.objects.filter(SEARCHED, ~Q(content=""), session__owner__isnull=False).select_related("session")
    return rows.only("content", "ordinal", "part", "session__owner", "session__title")


def _missing() -> QuerySet[Turn]:
    return _turns().filter(~Exists(SearchEntry.objects.filter(object_id=OuterRef("pk"))))


def _entries(turns: Iterable[Turn]) -> Iterable[Entry]:
    for turn in turns:
        session = turn.session
        assert session.owner_id is not None  # noqa: S101 - the query asks for it
        yield Entry(turn.pk, scope_of(session.owner_id), turn.content)
        if (turn.ordinal, turn.part) == (0, 0) and session.title:
            yield Entry(session.pk, titles_of(session.owner_id), session.title)
