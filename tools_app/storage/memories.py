"""Memories of agents, stored under keys and found by their words. Each actor has separate memories with each agent.

An actor is the user or sender that a run acts for (`user:7`, `sender:Telegram:501`): no other actor can read or add to
what an agent remembers of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit_app.kernel.advisory_lock import serialize
from tools_app.models import Memory
from tools_app.storage import memory_search
from tools_app.types import ToolError

MAX_MEMORIES = 500
MAX_KEY_CHARACTERS = 120
MAX_TEXT_CHARACTERS = 4_000


@dataclass(frozen=True)
class Holder:
    """Owner of memories: one agent (public id) and one actor."""

    agent_id: str
    actor: str


@dataclass(frozen=True)
class Remembered:
    """A memory. origins: what the run that wrote it had read from outside."""

    key: str
    text: str
    updated_at: datetime
    origins: tuple[str, ...] = ()


def store(holder: Holder, key: str, text: str, *, run_id: UUID, origins: Sequence[str] = ()) -> bool:
    """Store a memory, replacing the text under an existing key. Owns its transaction. Returns whether the key is new.

    origins: of what the run has read from outside.

    Raises ToolError if there are MAX_MEMORIES already. Idempotent.
    """
    now = timezone.now()
    columns = {"text": text, "run_id": run_id, "updated_at": now, "origins": "\n".join(origins)}
    with transaction.atomic():
        rows = _rows(holder)
        if rows.filter(key=key).update(**columns):
            return False
        serialize(f"memories of {holder.agent_id} for {holder.actor}")
        if rows.count() >= MAX_MEMORIES:
            raise ToolError(f"There are already {MAX_MEMORIES} memories. Forget some first.")
        Memory.objects.update_or_create(
            agent_id=holder.agent_id,
            actor=holder.actor,
            key=key,
            defaults=columns,
            create_defaults={**columns, "created_at": now},
        )
        return True


def recall(holder: Holder, query: str, *, limit: int) -> tuple[Remembered, ...]:
    """Return the memories that match the query best; without a query the newest."""
    rows = list(_rows(holder).order_by("-updated_at", "-id")[:MAX_MEMORIES])
    if query.strip():
        found = memory_search.rank([memory_search.Document(row.key, row.text) for row in rows], query)
        rows = [rows[at] for at in found]
    return tuple(Remembered(row.key, row.text, row.updated_at, tuple(row.origins.splitlines())) for row in rows[:limit])


def forget(holder: Holder, key: str) -> bool:
    """Delete a memory. Returns whether it existed."""
    with transaction.atomic():
        deleted, _ = _rows(holder).filter(key=key).delete()
        return bool(deleted)


def count(holder: Holder) -> int:
    return _rows(holder).count()


def _rows(holder: Holder) -> QuerySet[Memory]:
    return Memory.objects.filter(agent_id=holder.agent_id, actor=holder.actor)
