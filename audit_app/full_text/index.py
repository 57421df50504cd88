"""The index of the full-text search: finds objects by the words of their texts, on SQLite and PostgreSQL alike.

SQLite has the words in an FTS5 table without content (`komand_search_words`) whose rows have the ids of the entries;
what is needed to delete a row stands packed in its entry. PostgreSQL has them in a `tsvector` column with a GIN index.
Both get the same words (`full_text.words`), so no database's own parser decides what is found.

A scope, such as `turns of user 7`, is part of the index: a search reads what is in its scope, whatever else there is.
It saves time; access is checked by who shows the objects.
"""

import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Model
from django.db.models.signals import post_delete

from audit_app.full_text.query import Query, Term
from audit_app.full_text.words import indexed_words
from audit_app.kernel.advisory_lock import serialize
from audit_app.models import SearchEntry

_LOCK = "ids of the search index"
_AT_ONCE = 500
# Limits of PostgreSQL for a `tsvector`: positions of one word, and the highest position.
_MOST_POSITIONS, _LAST_POSITION = 255, 16_383

_INSERT_WORDS = "INSERT INTO komand_search_words(rowid, scope, words) VALUES (%s, %s, %s)"
_DELETE_WORDS = (
    "INSERT INTO komand_search_words(komand_search_words, rowid, scope, words) VALUES ('delete', %s, %s, %s)"
)
_FIND_SQLITE = """
    SELECT id, object_id FROM komand_search_entry WHERE id IN
      (SELECT rowid FROM komand_search_words
       WHERE komand_search_words MATCH %s AND rowid < %s ORDER BY rowid DESC LIMIT %s)
    ORDER BY id DESC"""
_INSERT_VECTOR = "INSERT INTO komand_search_entry(id, object_id, scope, vector) VALUES (%s, %s, %s, %s::tsvector)"
_FIND_POSTGRES = """
    SELECT id, object_id FROM komand_search_entry WHERE vector @@ %s::tsquery AND id < %s ORDER BY id DESC LIMIT %s"""
_NEWEST = 2**63 - 1


@dataclass(frozen=True)
class Entry:
    """An object to be found. scope: the set of objects that are searched together, in any words."""

    object_id: UUID
    scope: str
    text: str


@dataclass(frozen=True)
class Match:
    """A found object. place: of its entry, higher for later ones; a search continues below it."""

    place: int
    object_id: UUID


def put(entries: Sequence[Entry], *, is_older: bool = False) -> None:
    """Store entries, which replace those of the same objects. In the caller's transaction.

    is_older: they are older than all that are stored, and the newest of them comes first.
    """
    if not entries:
        return
    serialize(_LOCK)
    remove([entry.object_id for entry in entries])
    step = -1 if is_older else 1
    outermost = SearchEntry.objects.order_by("pk" if is_older else "-pk").values_list("pk", flat=True).first()
    first = (outermost or 0) + step
    numbered = [(first + step * at, entry) for at, entry in enumerate(entries)]
    (_put_sqlite if connection.vendor == "sqlite" else _put_postgres)(numbered)


def remove(object_ids: Iterable[UUID]) -> None:
    """Delete the entries of objects, if there are any. In the caller's transaction."""
    remaining = iter(object_ids)
    while some := list(islice(remaining, _AT_ONCE)):
        rows = SearchEntry.objects.filter(object_id__in=some)
        if connection.vendor == "sqlite":
            stored = list(rows.values_list("pk", "scope", "packed"))
            values = [(pk, scope, zlib.decompress(bytes(packed or b"")).decode()) for pk, scope, packed in stored]
            with connection.cursor() as cursor:
                cursor.executemany(_DELETE_WORDS, values)
        rows.delete()


def forget_deleted(model: type[Model]) -> None:
    """Delete the entries of this model's objects together with them. Called once for a model."""
    post_delete.connect(_forget, sender=model, dispatch_uid=f"search index of {model.__name__}")


def _forget(instance: Model, **_: object) -> None:
    remove([instance.pk])


def find(scope: str, query: Query, *, limit: int, before: int | None = None) -> list[Match]:
    """Return the objects of the scope that match, the newest first. before: only those below this place."""
    if not query.wanted:
        return []
    is_sqlite = connection.vendor == "sqlite"
    expression = (_fts5 if is_sqlite else _tsquery)(_digest(scope), query)
    statement = _FIND_SQLITE if is_sqlite else _FIND_POSTGRES
    with connection.cursor() as cursor:
        cursor.execute(statement, [expression, _NEWEST if before is None else before, limit])
        return [Match(place, found if isinstance(found, UUID) else UUID(found)) for place, found in cursor.fetchall()]


def indexed(object_ids: Collection[UUID]) -> set[UUID]:
    """Return which of the objects have an entry."""
    return set(SearchEntry.objects.filter(object_id__in=object_ids).values_list("object_id", flat=True))


def clear() -> None:
    """Delete all entries. Owns its transaction."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("INSERT INTO komand_search_words(komand_search_words) VALUES ('delete-all')")
        cursor.execute("DELETE FROM komand_search_entry")


def _put_sqlite(numbered: Sequence[tuple[int, Entry]]) -> None:
    texts = [" ".join(indexed_words(entry.text)) for _, entry in numbered]
    digests = [_digest(entry.scope) for _, entry in numbered]
    SearchEntry.objects.bulk_create(
        SearchEntry(pk=pk, object_id=entry.object_id, scope=digest, packed=zlib.compress(text.encode(), 1))
        for (pk, entry), digest, text in zip(numbered, digests, texts, strict=True)
    )
    with connection.cursor() as cursor:
        rows = [(pk, digest, text) for (pk, _), digest, text in zip(numbered, digests, texts, strict=True)]
        cursor.executemany(_INSERT_WORDS, rows)


def _put_postgres(numbered: Sequence[tuple[int, Entry]]) -> None:
    rows = []
    for pk, entry in numbered:
        digest = _digest(entry.scope)
        rows.append((pk, entry.object_id, digest, _vector(digest, indexed_words(entry.text))))
    with connection.cursor() as cursor:
        cursor.executemany(_INSERT_VECTOR, rows)


def _digest(scope: str) -> str:
    return f"s{blake2b(scope.encode(), digest_size=12).hexdigest()}"


def _vector(digest: str, found: Sequence[str]) -> str:
    """Return the literal of a `tsvector`. The scope has a sign that no word has."""
    places: dict[str, list[int]] = {}
    for at, word in enumerate(found, start=1):
        places.setdefault(word, []).append(min(at, _LAST_POSITION))
    positions = (f"'{word}':{','.join(map(str, at[:_MOST_POSITIONS]))}" for word, at in places.items())
    return " ".join((f"':{digest}'", *positions))


def _fts5(digest: str, query: Query) -> str:
    """Return the expression of FTS5. Words contain letters and digits only, so nothing has to be escaped."""
    joined = (" OR " if query.matches_any else " AND ").join(map(_fts5_term, query.wanted))
    without = "".join(f" NOT {_fts5_term(term)}" for term in query.excluded)
    return f"scope : {digest} AND words : (({joined}){without})"


def _fts5_term(term: Term) -> str:
    sequence = " ".join(term.words)
    return f'"{sequence}" *' if term.is_prefix else f'"{sequence}"'


def _tsquery(digest: str, query: Query) -> str:
    joined = (" | " if query.matches_any else " & ").join(map(_tsquery_term, query.wanted))
    without = "".join(f" & !{_tsquery_term(term)}" for term in query.excluded)
    return f"':{digest}' & ({joined}){without}"


def _tsquery_term(term: Term) -> str:
    sequence = " <-> ".join(f"'{word}'" for word in term.words)
    return f"({sequence}{':*' if term.is_prefix else ''})"
