"""Bulk inserts of millions of rows in one statement: `INSERT … SELECT` over a series, on SQLite and PostgreSQL.

A column that is not named gets its model's default, so that new columns need no change here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.models import Field, Model

_SQLITE_SPEED = (
    "PRAGMA journal_mode=OFF",
    "PRAGMA synchronous=OFF",
    "PRAGMA cache_size=-1500000",
    "PRAGMA foreign_keys=OFF",
)
_SQLITE_BACK = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", "PRAGMA foreign_keys=ON")


class Dialect:
    """Expressions that both databases understand, over SQL numbers."""

    def __init__(self) -> None:
        self._is_postgres = connection.vendor == "postgresql"

    def series(self, count: int) -> str:
        """Return a source `n` with the column `i`: 0 to count - 1."""
        if self._is_postgres:
            return f"(SELECT i FROM generate_series(0::bigint, {count - 1}) AS s(i)) AS n"
        numbers = f"WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < {count - 1})"
        return f"({numbers} SELECT i FROM s) AS n"

    def uuid(self, ms: str, number: str) -> str:
        """Return a version 7 UUID of that time; different numbers give different ids."""
        if self._is_postgres:
            time, low = f"lpad(to_hex(({ms})::bigint), 12, '0')", f"lpad(to_hex(({number})::bigint), 15, '0')"
            return f"({time} || '7' || lpad(to_hex(({number}) & 4095), 3, '0') || '8' || {low})::uuid"
        return f"printf('%012x7%03x8%015x', {ms}, ({number}) & 4095, {number})"

    def time(self, ms: str) -> str:
        if self._is_postgres:
            return f"to_timestamp(({ms}) / 1000.0)"
        return f"strftime('%Y-%m-%d %H:%M:%f', ({ms}) / 1000.0, 'unixepoch')"

    def text(self, expression: str) -> str:
        return f"CAST({expression} AS text)"

    def json(self, expression: str) -> str:
        return f"({expression})::jsonb" if self._is_postgres else expression

    def true(self, condition: str) -> str:
        return f"({condition})"


def insert(model: type[Model], columns: Mapping[str, str], source: str) -> None:
    """Insert rows. columns: an SQL expression for each field; source: the FROM clause."""
    names, expressions, values = [], [], []
    for field in model._meta.concrete_fields:
        if field.name in columns:
            names.append(field.column)
            expressions.append(columns[field.name].replace("%", "%%"))
        elif not field.primary_key:
            names.append(field.column)
            expressions.append("%s")
            values.append(_default(field))
    quoted = ", ".join(f'"{name}"' for name in names)
    statement = f"INSERT INTO {model._meta.db_table} ({quoted}) SELECT {', '.join(expressions)} FROM {source}"
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def _default(field: "Field[Any, Any]") -> Any:
    return field.get_db_prep_save(field.get_default(), connection)


@contextmanager
def without_indexes(models: Sequence[type[Model]]) -> Iterator[None]:
    """Drop the indexes of these tables, and create them again after the block, which is faster than updating them."""
    with connection.cursor() as cursor:
        for pragma in _SQLITE_SPEED if connection.vendor == "sqlite" else ():
            cursor.execute(pragma)
    with connection.schema_editor() as editor:
        for model in models:
            for index in model._meta.indexes:
                editor.remove_index(model, index)
    yield
    with connection.schema_editor() as editor:
        for model in models:
            for index in model._meta.indexes:
                editor.add_index(model, index)
    with connection.cursor() as cursor:
        for statement in _SQLITE_BACK if connection.vendor == "sqlite" else ("VACUUM ANALYZE",):
            cursor.execute(statement)
