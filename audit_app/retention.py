"""What is not kept for ever: rules by which old rows go, a small batch at a time, so that no writer waits for them.

Each app adds its own rules. `sweep` belongs to the chores of every second; `manage.py prune` applies all rules at once.
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
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from audit_app.kernel.ids import FIRST_MOMENT, first_id_at, new_id
from audit_app.models import AuditEntry, Event, TimelineHead

logger = logging.getLogger(__name__)

# Rows of one transaction: some milliseconds of the write lock. At one batch a second still 43 million rows a day.
BATCH = 500
_ROUND_SECONDS = 600.0
_TURN_SECONDS = 30
# Facts that are a message to whoever reads the session.
_MESSAGES = ("message.received", "message.completed")
_SESSIONS_AT_ONCE = 200


class Rule(ABC):
    """name: of what goes, for people; says: how long it is kept."""

    name: str
    says: str

    @abstractmethod
    def prune(self, limit: int) -> int:
        """Drop at most so many rows, in a transaction of its own. How many; fewer than `limit` when none is left."""

    @abstractmethod
    def count(self) -> int:
        """How many rows would go now."""


@dataclass
class Expired(Rule):
    """Rows that a query finds, in an order that an index has. find: None while everything is kept; empty: columns to
    set to null instead of deleting the row."""

    name: str
    says: str
    find: Callable[[], QuerySet[Any] | None]
    empty: tuple[str, ...] = ()

    def prune(self, limit: int) -> int:
        rows = self.find()
        if rows is None:
            return 0
        ids = list(rows.values_list("pk", flat=True)[:limit])  # read before the transaction, which others wait for
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
    """Called while the app's `retention` module is imported."""
    _rules[rule.name] = rule


def list_rules() -> tuple[Rule, ...]:
    return tuple(_rules.values())


def days_ago(days: int) -> datetime:
    """That moment, or the first that ids know, when there was nothing to keep yet."""
    now = datetime.now(UTC)
    return now - timedelta(days=min(days, (now - FIRST_MOMENT).days))


@dataclass
class Pruner:
    """Applies rules one batch a step, all of them once a round. One process at a time works on a rule."""

    rules: Callable[[], Sequence[Rule]] = list_rules
    clock: Callable[[], float] = time.monotonic
    token: str = field(default_factory=lambda: str(new_id()))
    _due: list[Rule] = field(default_factory=list)
    _next_round: float = float("-inf")

    def step(self) -> None:
        """At most one batch of one rule. Called about each second; does nothing between rounds."""
        if not self._due:
            if self.clock() < self._next_round:
                return
            self._next_round = self.clock() + _ROUND_SECONDS
            self._due = list(self.rules())
        rule = self._due.pop()  # one that fails is not tried again before the next round
        if self._may_work_on(rule) and self._apply(rule) >= BATCH:
            self._due.append(rule)

    @staticmethod
    def _apply(rule: Rule) -> int:
        gone = rule.prune(BATCH)
        if gone:
            logger.info("pruned: %d × %s", gone, rule.name)
        return gone

    def _may_work_on(self, rule: Rule) -> bool:
        """Two processes at one rule would do no harm, only the same work; so nobody waits for a lock to be free."""
        key = f"{settings.KOMAND_REDIS_PREFIX}prune:{rule.name}"
        if valkey.breaker.is_open:
            return False  # next round
        try:
            with valkey.breaker.watch():
                client = valkey.sync_client()
                if client.set(key, self.token, nx=True, ex=_TURN_SECONDS):
                    return True
                if client.get(key) != self.token.encode():
                    return False
                client.expire(key, _TURN_SECONDS)
        except RedisError:
            return False
        return True


_pruner = Pruner()


def sweep(_observer: object) -> None:
    """The part of retention in the chores of every second."""
    _pruner.step()


class OldTimelines(Rule):
    """Events older than KOMAND_TIMELINE_DAYS, except those of a session's newest KOMAND_TIMELINE_MESSAGES messages.

    Sessions are gone through in the order of their ids; where it stopped is remembered by the process alone.
    """

    name = "events of the timeline"
    says = "KOMAND_TIMELINE_DAYS, but never a session's newest KOMAND_TIMELINE_MESSAGES"

    def __init__(self) -> None:
        self._after: UUID | None = None

    def prune(self, limit: int) -> int:
        """Goes on while there are sessions left to look at, so it may say `limit` although fewer rows went."""
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
                self._after = UUID(int=session_id.int - 1)  # there may be more of it
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
    """The first events of a session, as far as they may go."""
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


def _old_entries() -> "QuerySet[AuditEntry] | None":
    days = settings.KOMAND_AUDIT_DAYS
    return AuditEntry.objects.filter(pk__lt=first_id_at(days_ago(days))).order_by("pk") if days else None


register(OldTimelines())
register(Expired("entries of the audit log", "KOMAND_AUDIT_DAYS", _old_entries))
