"""Queries that are compiled once: Django builds the SQL of a query anew at each use, which for a large one costs ten
times what the database needs to answer it. For the few that stand between a message and its first word."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet


class PreparedQuery:
    """A query of one column or several, with at most one value that changes.

    build: makes the queryset (`values_list`) with `value` where the changing value goes; it is called once for each
    kind of database with `example`, which must not occur among the query's other values.
    """

    def __init__(self, build: Callable[[Any], QuerySet[Any, Any]], example: Any = None) -> None:
        self._build = build
        self._example = example
        self._compiled: dict[str, tuple[str, tuple[Any, ...], int | None]] = {}

    def rows(self, value: Any = None) -> list[tuple[Any, ...]]:
        """What the database returns, unconverted: an UUID is text on SQLite."""
        sql, parameters, place = self._compiled.get(connection.vendor) or self._compile()
        if place is not None:
            parameters = (*parameters[:place], self._adapted(value), *parameters[place + 1 :])
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def _compile(self) -> tuple[str, tuple[Any, ...], int | None]:
        sql, parameters = self._build(self._example).query.sql_with_params()
        place = None if self._example is None else parameters.index(self._adapted(self._example))
        compiled = self._compiled[connection.vendor] = sql, tuple(parameters), place
        return compiled

    def _adapted(self, value: Any) -> Any:
        as_text = isinstance(value, UUID) and not connection.features.has_native_uuid_field
        return value.hex if as_text else value
