"""Retention rules, by which old rows are deleted in batches so small that no writer waits for them.

Each app registers its own rules. `sweep` is called by the sweepers each second; `manage.py prune` applies all rules at
once.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from audit_app.kernel import single_holder
from audit_app.kernel.ids import FIRST_MOMENT, new_id
from audit_app.models import Event, LiveCopy, TimelineHead
from audit_app.stream import KEEP_SECONDS

logger = logging.getLogger(__name__)

# Rows of one transaction: some milliseconds of the write lock. At one batch a second still 43 million rows a day.
BATCH = 500
_ROUND_SECONDS = 600.0
# Events that are messages for readers of the session.
_MESSAGES = ("message.received", "message.completed")
_SESSIONS_AT_ONCE = 200


class Rule(ABC):
    """A retention rule.

    name: the rows, for operators.
    kept_for: how long they are kept, for operators.
    """

    name: str
    kept_for: str

    @abstractmethod
    def prune(self, limit: int) -> int:
        """Delete at most `limit` rows. Owns its transaction. Return their number; less than `limit` if none is left."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of rows that would be deleted now."""


@dataclass
class Expired(Rule):
    """A rule for the rows of a query, which is ordered by an index.

    find: returns the query, or None while everything is kept.
    empty: columns to set to null instead of deleting the row.
    """

    name: str
    kept_for: str
    find: Callable[[], QuerySet[Any] | None]
    empty: tuple[str, ...] = ()

    def prune(self, limit: int) -> int:
        rows = self.find()
        if rows is None:
            return 0
        ids = list(rows.values_list("pk", flat=True)[:limit])  # before the transaction: writers wait for it
        if ids:
            with transaction.atomic():
                gone = rows.model._base_manager.filter(pk__in=ids)
                gone.update(**dict.fromkeys(self.empty)) if self.empty else gone.delete()
        return len(ids)

    def count(self) -> int:
        rows = self.find()
        return 0 if rows is None else rows.count()


_rules: dict[str, Rule] = {}


def register(rule: Rule) -> None:
    """Register a rule. Called while the app's `retention` module is imported."""
    _rules[rule.name] = rule


def list_rules() -> tuple[Rule, ...]:
    return tuple(_rules.values())


def days_ago(days: int) -> datetime:
    """Return the time so many days ago, at least the first that ids can encode."""
    now = datetime.now(UTC)
    return now - timedelta(days=min(days, (now - FIRST_MOMENT).days))


@dataclass
class Pruner:
    """Applies one batch of one rule a step, and all rules once a round. One process at a time works on a rule."""

    rules: Callable[[], Sequence[Rule]] = list_rules
    clock: Callable[[], float] = time.monotonic
    token: str = field(default_factory=lambda: str(new_id()))
    _due: list[Rule] = field(default_factory=list)
    _next_round: float = float("-inf")

    def step(self) -> None:
        """Apply at most one batch of one rule. Called about each second; does nothing between rounds."""
        if not self._due:
            if self.clock() < self._next_round:
                return
            self._next_round = self.clock() + _ROUND_SECONDS
            self._due = list(self.rules())
        rule = self._due.pop()  # a rule that fails is not retried before the next round
        # The lock only avoids duplicate work.
        if single_holder.is_held(f"prune:{rule.name}", self.token) and self._apply(rule) >= BATCH:
            self._due.append(rule)

    @staticmethod
    def _apply(rule: Rule) -> int:
        gone = rule.prune(BATCH)
        if gone:
            logger.info("pruned: %d × %s", gone, rule.name)
        return gone


_pruner = Pruner()


def sweep(_observer: object) -> None:
    """Apply the next step of retention; called by the sweepers each second."""
    _pruner.step()


class OldTimelines(Rule):
    """Events older than KOMAND_TIMELINE_DAYS, except those of a session's newest KOMAND_TIMELINE_MESSAGES messages.

    Sessions are processed in the order of their ids; the position is kept in this process only.
    """

    name = "events of the timeline"
    kept_for = "KOMAND_TIMELINE_DAYS, but never a session's newest KOMAND_TIMELINE_MESSAGES"

    def __init__(self) -> None:
        self._after: UUID | None = None

    def prune(self, limit: int) -> int:
        """Delete a batch. Returns `limit` while sessions are left, even if fewer rows were deleted."""
        if not settings.KOMAND_TIMELINE_DAYS:
            return 0
        session_ids = list(self._heads()[:_SESSIONS_AT_ONCE])
        self._after = session_ids[-1] if len(session_ids) == _SESSIONS_AT_ONCE else None
        gone = 0
        for session_id in session_ids:
            ids = list(_old_events(session_id, limit - gone))
            with transaction.atomic():
                Event.objects.filter(pk__in=ids).delete()
            gone += len(ids)
            if gone >= limit:
                self._after = UUID(int=session_id.int - 1)  # this session may have more
                return limit
        return limit if self._after else gone

    def count(self) -> int:
        if not settings.KOMAND_TIMELINE_DAYS:
            return 0
        everything = Event.objects.count()
        return sum(len(list(_old_events(session_id, everything))) for session_id in self._heads().iterator())

    def _heads(self) -> "QuerySet[TimelineHead, UUID]":
        heads = TimelineHead.objects.filter(seq__gt=settings.KOMAND_TIMELINE_MESSAGES).order_by("pk")
        return (heads.filter(pk__gt=self._after) if self._after else heads).values_list("pk", flat=True)


def _old_events(session_id: UUID, limit: int) -> Iterator[int]:
    """Yield the ids of a session's first events that may be deleted."""
    before = int(days_ago(settings.KOMAND_TIMELINE_DAYS).timestamp() * 1000)
    events = Event.objects.filter(session_id=session_id)
    oldest = events.order_by("seq").values_list("pk", "seq", "ts")
    if not [ts for _, _, ts in oldest[:1] if ts < before]:
        return
    messages = events.filter(type__in=_MESSAGES).order_by("-seq").values_list("seq", flat=True)
    place = settings.KOMAND_TIMELINE_MESSAGES - 1
    kept_from = messages[place : place + 1].first()
    for pk, seq, ts in oldest[:limit]:
        if kept_from is None or seq >= kept_from or ts >= before:
            return
        yield pk


def _old_copies() -> "QuerySet[LiveCopy]":
    before = datetime.now(UTC) - timedelta(seconds=KEEP_SECONDS)
    return LiveCopy.objects.filter(stored_at__lt=before).order_by("stored_at")


register(OldTimelines())
register(Expired("copies of live text", "half an hour, as the live streams", _old_copies))
