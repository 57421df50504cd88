"""Memories of agents, stored under keys and found by their words. Each actor has separate memories with each agent.

An actor is the user or sender that a run acts for (`user:7`, `sender:Telegram:501`): no other actor can read or add to
what an agent remembers of them. What its actor does with them is in `own_memories`.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Substr
from django.utils import timezone

from audit_app.full_text import bm25, index
from audit_app.full_text.index import Entry
from audit_app.full_text.query import Query, like
from audit_app.kernel import single_holder
from audit_app.kernel.advisory_lock import serialize
from audit_app.kernel.ids import new_id
from audit_app.models import SearchEntry
from tools_app import hot_queries
from tools_app.models import IS_TRUSTED, Memory
from tools_app.storage.memory_source import PERSON
from tools_app.types import ToolError

MAX_MEMORIES = 1_000
MAX_KEY_CHARACTERS = 120
MAX_TEXT_BYTES = 100 * 1024
_RANKED, _RANKED_CHARACTERS = 300, 1_000  # memories that match, and the beginning of each
_BATCH, _CHECK_SECONDS = 100, 300.0
_PINNED, _PROFILE, _SHORT_CHARACTERS = 20, 5, 160


@dataclass(frozen=True)
class Holder:
    """Owner of memories: one agent (public id) and one actor."""

    agent_id: str
    actor: str

    @property
    def scope(self) -> str:
        """Return the scope of the memories in the index of the search."""
        return f"memories of {self.agent_id} for {self.actor}"


@dataclass(frozen=True)
class Remembered:
    """A memory. origins: what the run that wrote it had read from outside.

    source: person | tool | agent.
    is_trusted: it may stand in a prompt without being asked for.
    """

    id: UUID
    key: str
    text: str
    updated_at: datetime
    source: str
    is_trusted: bool
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written:
    """A memory as a run writes it. origins: of what the run has read from outside."""

    key: str
    text: str
    run_id: UUID
    source: str = "agent"
    origins: tuple[str, ...] = ()


class _Beginning(NamedTuple):
    """A memory with the beginning of its text."""

    pk: UUID
    key: str
    text: str
    updated_at: datetime
    is_pinned: bool
    source: str

    @property
    def is_short(self) -> bool:
        return len(self.text) <= _SHORT_CHARACTERS


def store(holder: Holder, written: Written) -> bool:
    """Store a memory, replacing the text under an existing key. Owns its transaction. Returns whether the key is new.

    Raises ToolError if there are MAX_MEMORIES already, or the text is longer than MAX_TEXT_BYTES. Idempotent.
    """
    check_size(written.text)
    now = timezone.now()
    origins = "\n".join(written.origins)
    columns: dict[str, Any] = {"text": written.text, "run_id": written.run_id, "updated_at": now, "origins": origins}
    columns |= {"source": written.source, "approved_at": None, "approved_by": ""}
    with transaction.atomic():
        rows = _rows(holder).filter(key=written.key)
        is_new = not rows.update(**columns)
        if is_new:
            _add(holder, written.key, columns)
        put_entries(rows)
        return is_new


def _add(holder: Holder, key: str, columns: dict[str, Any]) -> None:
    serialize(holder.scope)
    if _rows(holder).count() >= MAX_MEMORIES:
        raise ToolError(f"There are already {MAX_MEMORIES:,} memories of this person. Forget some first.")
    owner, at = {"agent_id": holder.agent_id, "actor": holder.actor, "key": key}, columns["updated_at"]
    Memory.objects.update_or_create(**owner, defaults=columns, create_defaults={**columns, "created_at": at})


def check_size(text: str) -> None:
    """Raise ToolError if the text is too long for a memory."""
    size = len(text.encode())
    if size > MAX_TEXT_BYTES:
        raise ToolError(
            f"A memory may have at most {MAX_TEXT_BYTES:,} bytes; this one has {size:,}. Store a shorter text."
        )


def recall(holder: Holder, query: str, *, limit: int) -> tuple[Remembered, ...]:
    """Return the memories that match the query best; without a query the newest."""
    rows = _rows(holder).order_by("-updated_at", "-id")
    if query.strip():
        return _remembered(rows, rank(holder, like(query), rows)[:limit])
    return tuple(map(_view, rows[:limit]))


def recall_trusted(
    holder: Holder, text: str, *, limit: int, characters: int = MAX_TEXT_BYTES
) -> tuple[Remembered, ...]:
    """Return what a prompt may show without being asked, each cut to its first characters.

    The pinned memories, the newest first; then those that fit the message to answer, `text`, the best first; then
    short ones that the person said, the newest first.
    """
    rows = _rows(holder).filter(IS_TRUSTED)
    newest = _scan(rows)
    pinned = [memory.pk for memory in newest if memory.is_pinned]
    profile = [memory.pk for memory in newest if memory.is_short and memory.source == PERSON]
    wanted = [*pinned[:_PINNED], *_best(newest, like(text)), *profile[:_PROFILE]]
    beginning = Substr("text", 1, characters)
    return _remembered(rows.annotate(beginning=beginning).defer("text"), list(dict.fromkeys(wanted))[:limit])


def read(holder: Holder, key: str) -> Remembered | None:
    """Return the memory under a key, None if there is none."""
    row = _rows(holder).filter(key=key).first()
    return _view(row) if row else None


def forget(holder: Holder, key: str) -> bool:
    """Delete a memory. Returns whether it existed."""
    with transaction.atomic():
        deleted, _ = _rows(holder).filter(key=key).delete()
        return bool(deleted)


def count(holder: Holder) -> int:
    return _rows(holder).count()


def of_agent(agent_id: str | OuterRef) -> QuerySet[Memory]:
    """Return the memories of an agent, for all actors, in no order."""
    return Memory.objects.filter(agent_id=agent_id).order_by()


def has_any(holder: Holder) -> bool:
    return bool(hot_queries.FIND_ANY_MEMORY.rows(agent_id=holder.agent_id, actor=holder.actor))


def rank(holder: Holder, query: Query, rows: QuerySet[Memory]) -> list[UUID]:
    """Return the ids of those of the holder's rows that match, best first.

    If one word suffices, all rows of the holder are read, not the index: in it, the frequent words of a message have
    many matches of others.
    """
    if query.matches_any:
        return _best(_scan(rows.filter(agent_id=holder.agent_id, actor=holder.actor)), query)
    found = [match.object_id for match in index.find(holder.scope, query, limit=_RANKED)]
    return _best(_scan(rows.filter(pk__in=found)), query)


def _scan(rows: QuerySet[Memory]) -> list[_Beginning]:
    """Read the beginnings of memories, the newest first. Sorted here: else a database reads all of the actor's."""
    columns = rows.order_by().annotate(beginning=Substr("text", 1, _RANKED_CHARACTERS))
    values = columns.values_list("pk", "key", "beginning", "updated_at", "is_pinned", "source")
    return sorted((_Beginning(*each) for each in values), key=lambda each: (each.updated_at, each.pk), reverse=True)


def _best(memories: Sequence[_Beginning], query: Query) -> list[UUID]:
    """Return the ids of the memories that match, best first. Words of the key count double."""
    texts = [f"{memory.key} {memory.key} {memory.text}" for memory in memories]
    return [memories[at].pk for at in bm25.rank(texts, query)]


def put_entries(rows: Iterable[Memory]) -> None:
    """Index memories for the search, in the caller's transaction."""
    index.put([Entry(row.pk, Holder(row.agent_id, row.actor).scope, f"{row.key} {row.text}") for row in rows])


def index_missing(limit: int = _BATCH) -> int:
    """Index memories that are not indexed, such as those of a release without the index. Return their number."""
    missing = Memory.objects.filter(~Exists(SearchEntry.objects.filter(object_id=OuterRef("pk"))))
    rows = list(missing.order_by("-updated_at")[:limit])
    with transaction.atomic():
        put_entries(rows)
    return len(rows)


@dataclass
class Indexer:
    """Indexes what an older release has written, one process at a time. The lock only avoids duplicate work."""

    token: str = field(default_factory=lambda: str(new_id()))
    _next: float = 0.0

    def step(self) -> None:
        """Index one batch. Called about each second; looks only now and then if nothing is missing."""
        if time.monotonic() < self._next:
            return
        if not single_holder.is_held("memory-index", self.token) or index_missing() < _BATCH:
            self._next = time.monotonic() + _CHECK_SECONDS


_indexer = Indexer()


def sweep(_observer: object) -> None:
    """Take the next step; called by the sweepers each second."""
    _indexer.step()


def _rows(holder: Holder) -> QuerySet[Memory]:
    return Memory.objects.filter(agent_id=holder.agent_id, actor=holder.actor)


def _remembered(rows: QuerySet[Memory], ids: Sequence[UUID]) -> tuple[Remembered, ...]:
    found = rows.order_by().in_bulk(ids)
    return tuple(_view(found[pk]) for pk in ids if pk in found)


def _view(row: Memory) -> Remembered:
    origins = tuple(row.origins.splitlines())
    source = row.source or ("tool" if origins else "agent")
    text = getattr(row, "beginning", None) or row.text
    return Remembered(row.pk, row.key, text, row.updated_at, source, row.is_trusted, origins)
