"""What is not kept for ever: rules by which old rows go, a small batch at a time, so that no writer waits for them.

Each app adds its own rules. `sweep` belongs to the chores of every second; `manage.py prune` applies all rules at once.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from redis.exceptions import RedisError

from audit_app.kernel import valkey
from audit_app.kernel.ids import FIRST_MOMENT, new_id

logger = logging.getLogger(__name__)

# Rows of one transaction: some milliseconds of the write lock. At one batch a second still 43 million rows a day.
BATCH = 500
_ROUND_SECONDS = 600.0
_TURN_SECONDS = 30


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
