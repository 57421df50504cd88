"""Changes that the person whom memories are about makes: store, correct, approve, pin, delete. All are audited."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from audit_app import services as audit
from audit_app.full_text.query import parse
from audit_app.kernel.advisory_lock import serialize
from audit_app.kernel.errors import InvalidInput, NotFound
from tools_app.models import Memory
from tools_app.storage import memories
from tools_app.storage.memory_source import PERSON
from tools_app.types import ToolError

_NO_RUN = UUID(int=0)  # of a memory that the person has stored


@dataclass(frozen=True)
class Owner:
    """A person whose memories are read.

    agents: public ids that a key is limited to, None for all.
    name: the person as an actor, for the audit log.
    """

    name: str
    actors: tuple[str, ...]
    agents: frozenset[str] | None = None


@dataclass(frozen=True)
class Page:
    """Memories, the last changed first or, of a search, the best first. cursor: of the next page; empty at the end."""

    memories: tuple[Memory, ...]
    cursor: str


def list_memories(owner: Owner, *, agent_id: str = "", query: str = "", limit: int = 50, cursor: str = "") -> Page:
    """Return a page of the owner's memories. Raises InvalidInput (invalid_cursor)."""
    rows = _rows(owner).filter(agent_id=agent_id) if agent_id else _rows(owner)
    if query.strip():
        return _found(rows, query, limit, cursor)
    if cursor:
        at, memory_id = _read_cursor(cursor)
        rows = rows.filter(Q(updated_at__lt=at) | Q(updated_at=at, pk__lt=memory_id))
    page = list(rows.order_by("-updated_at", "-pk")[: limit + 1])
    last = page[limit - 1] if len(page) > limit else None
    return Page(tuple(page[:limit]), f"{last.updated_at.isoformat()}/{last.pk}" if last else "")


def list_agents(owner: Owner) -> list[str]:
    """Return the public ids of the agents that remember something."""
    return sorted(_rows(owner).order_by().values_list("agent_id", flat=True).distinct())


def get(owner: Owner, memory_id: UUID) -> Memory:
    """Return one memory. Raises NotFound."""
    row = _rows(owner).filter(pk=memory_id).first()
    if row is None:
        raise NotFound("There is no such memory.")
    return row


def change(owner: Owner, memory_id: UUID, *, text: str | None = None, is_pinned: bool | None = None) -> Memory:
    """Correct the text, which the person then has said, or pin it. Owns its transaction.

    Raises NotFound and InvalidInput (memory_text).
    """
    with transaction.atomic():
        row = _lock(owner, memory_id)
        if text is not None and text != row.text:
            _check(text)
            row.text, row.source, row.origins, row.updated_at = text, PERSON, "", timezone.now()
            row.approved_at, row.approved_by = None, ""
            memories.put_entries([row])
        if is_pinned is not None:
            row.is_pinned = is_pinned
        row.save()
        _record("MemoryChanged", owner, row)
    return row


def put(owner: Owner, agent_id: str, key: str, text: str) -> Memory:
    """Store what the person says under a key, in place of the text that it has. Owns its transaction.

    Raises InvalidInput (memory_text), also if the person has too many memories.
    """
    _check(text)
    holder = memories.Holder(agent_id, owner.name)
    with transaction.atomic():
        try:
            memories.store(holder, memories.Written(key, text, _NO_RUN, source=PERSON))
        except ToolError as error:
            raise InvalidInput(str(error), code="memory_text") from None
        row = Memory.objects.get(agent_id=agent_id, actor=owner.name, key=key)
        _record("MemoryChanged", owner, row)
    return row


def approve(owner: Owner, memory_id: UUID) -> Memory:
    """Let a memory that comes from outside be used like others. Owns its transaction. Raises NotFound. Idempotent."""
    with transaction.atomic():
        row = _lock(owner, memory_id)
        if not row.is_trusted:
            row.approved_at, row.approved_by = max(timezone.now(), row.updated_at), owner.name
            row.save(update_fields=["approved_at", "approved_by"])
            _record("MemoryApproved", owner, row)
    return row


def delete(owner: Owner, memory_id: UUID) -> None:
    """Delete one memory. Owns its transaction. Raises NotFound."""
    with transaction.atomic():
        row = _lock(owner, memory_id)
        _record("MemoryDeleted", owner, row)
        row.delete()


def delete_key(owner: Owner, agent_id: str, key: str) -> bool:
    """Delete what an agent remembers under a key. Owns its transaction. Return whether there was anything."""
    with transaction.atomic():
        rows = list(_rows(owner).select_for_update(no_key=True).filter(agent_id=agent_id, key=key))
        for row in rows:
            _record("MemoryDeleted", owner, row)
            row.delete()
    return bool(rows)


def delete_all(owner: Owner, *, agent_id: str = "") -> int:
    """Delete the owner's memories, or those of one agent. Owns its transaction. Return their number."""
    with transaction.atomic():
        rows = _rows(owner).filter(agent_id=agent_id) if agent_id else _rows(owner)
        _, by_model = rows.delete()
        deleted = by_model.get("tools_app.Memory", 0)
        if deleted:
            audit.record("MemoriesDeleted", details={"count": deleted}, actor=owner.name, agent_id=agent_id)
    return deleted


def move(rows: QuerySet[Memory], actor: str) -> int:
    """Give memories to another actor, in the caller's transaction. Return their number.

    A memory whose key the actor has already gets a number behind its key, so that nothing is lost.
    """
    for agent_id in sorted(set(rows.order_by().values_list("agent_id", flat=True))):
        serialize(memories.Holder(agent_id, actor).scope)  # as for new memories, so that no key is taken meanwhile
    taken = set(Memory.objects.filter(actor=actor).values_list("agent_id", "key"))
    moved = list(rows.select_for_update(no_key=True).order_by("pk"))
    for row in moved:
        row.actor, row.key = actor, _free_key(row, taken)
        taken.add((row.agent_id, row.key))
    Memory.objects.bulk_update(moved, ["actor", "key"])
    memories.put_entries(moved)
    return len(moved)


def _free_key(row: Memory, taken: Collection[tuple[str, str]]) -> str:
    numbered = (f"{row.key[: memories.MAX_KEY_CHARACTERS - 7]} ({number})" for number in count(2))
    return next(key for key in chain([row.key], numbered) if (row.agent_id, key) not in taken)


def _found(rows: QuerySet[Memory], query: str, limit: int, cursor: str) -> Page:
    """Return a page of a search in all agents' memories. The cursor is the number of memories before it."""
    if not cursor.isdecimal() and cursor:
        raise _wrong_cursor()
    wanted, skipped = parse(query), int(cursor[:6] or 0)
    holders = [memories.Holder(*pair) for pair in rows.order_by().values_list("agent_id", "actor").distinct()]
    ids = [pk for holder in holders for pk in memories.rank(holder, wanted, rows)]
    shown = ids[skipped : skipped + limit]
    found = rows.in_bulk(shown)
    has_more = len(ids) > skipped + limit
    return Page(tuple(found[pk] for pk in shown if pk in found), str(skipped + limit) if has_more else "")


def _rows(owner: Owner) -> QuerySet[Memory]:
    rows = Memory.objects.filter(actor__in=owner.actors)
    return rows if owner.agents is None else rows.filter(agent_id__in=owner.agents)


def _lock(owner: Owner, memory_id: UUID) -> Memory:
    row = _rows(owner).select_for_update(no_key=True).filter(pk=memory_id).first()
    if row is None:
        raise NotFound("There is no such memory.")
    return row


def _check(text: str) -> None:
    if not text.strip():
        raise InvalidInput("A memory needs a text. To remove it, delete it.", code="memory_text")
    try:
        memories.check_size(text)
    except ToolError as error:
        raise InvalidInput(str(error), code="memory_text") from None


def _read_cursor(cursor: str) -> tuple[datetime, UUID]:
    at, _, memory_id = cursor.partition("/")
    try:
        read = datetime.fromisoformat(at)
        if read.tzinfo is not None:
            return read, UUID(memory_id)
    except ValueError:
        pass
    raise _wrong_cursor()


def _wrong_cursor() -> InvalidInput:
    return InvalidInput("The cursor is not one of this list: begin again without it.", code="invalid_cursor")


def _record(action: str, owner: Owner, row: Memory) -> None:
    audit.record(action, details={"key": row.key, "of": row.actor}, actor=owner.name, agent_id=row.agent_id)
