"""Statements that are compiled once: Django builds the SQL of a query anew at each use, which for a large one costs ten
times what the database needs to answer it. For the few that stand between a message and its first word.

Queries and updates are made with `build`, which makes Django's own query of the values that change, and with an example
of each of those values, which must not occur among the query's other values. `build` is called once for each kind of
database. An insertion needs its model alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.db.models import AutoField, Expression, Field, Model, QuerySet
from django.db.models.query import get_related_populators
from django.db.models.sql import InsertQuery, UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

_M = TypeVar("_M", bound=Model)
_Queries = Callable[..., QuerySet[Any, Any]]


class _Prepared:
    def __init__(self, build: Callable[..., Any], *examples: Any) -> None:
        self._build = build
        self._examples = examples
        self._compiled: dict[str, _Compiled] = {}

    def _execute(self, cursor: CursorWrapper, values: tuple[Any, ...]) -> "_Compiled":
        compiled = self._compiled.get(connection.vendor) or self._compile()
        parameters = list(compiled.parameters)
        for place, value in zip(compiled.places, values, strict=True):
            parameters[place] = _adapted(value)
        cursor.execute(compiled.sql, parameters)
        return compiled

    def _fetch(self, values: tuple[Any, ...]) -> tuple["_Compiled", Iterator[list[Any]]]:
        """The rows, each value as Django has it."""
        with connection.cursor() as cursor:
            compiled = self._execute(cursor, values)
            return compiled, map(compiled.converted, cursor.fetchall())

    def _compile(self) -> "_Compiled":
        compiler = self._compiler(self._build(*self._examples))
        sql, parameters = compiler.as_sql()
        places = tuple(parameters.index(_adapted(example)) for example in self._examples)
        compiled = self._compiled[connection.vendor] = _Compiled(sql, tuple(parameters), places, compiler)
        return compiled

    def _compiler(self, built: Any) -> SQLCompiler:
        compiler: SQLCompiler = built.query.get_compiler(connection=connection)
        return compiler


class _Compiled:
    """A statement with its parameters, where among them the changing values stand, and what its rows become: what
    Django's iterables work out of a compiled query at each use."""

    def __init__(self, sql: str, parameters: tuple[Any, ...], places: tuple[int, ...], compiler: SQLCompiler) -> None:
        self.sql, self.parameters, self.places = sql, parameters, places
        columns = [column[0] for column in compiler.select or ()]
        self._converters = list(compiler.get_converters(columns).items())
        self.objects = _Objects.of(compiler) if compiler.query.default_cols and compiler.klass_info else None

    def converted(self, row: Sequence[Any]) -> list[Any]:
        values = list(row)
        for place, (converters, expression) in self._converters:
            for convert in converters:
                values[place] = convert(values[place], expression, connection)
        return values


@dataclass(frozen=True)
class _Objects:
    """How a row becomes an object with its related ones."""

    model: type[Model]
    own: slice
    names: list[str]
    others: list[Any]

    @classmethod
    def of(cls, compiler: SQLCompiler) -> "_Objects":
        select, info = compiler.select, compiler.klass_info
        own = slice(info["select_fields"][0], info["select_fields"][-1] + 1)
        others = get_related_populators(info, select, connection.alias)  # type: ignore[call-arg] # a later Django's
        return cls(info["model"], own, [column[0].target.attname for column in select[own]], others)

    def make(self, row: list[Any]) -> Any:
        found = self.model.from_db(connection.alias, self.names, row[self.own])
        for other in self.others:
            other.populate(row, found)
        return found


class CompiledQuery(_Prepared):
    """A query of one column or several (`values_list`)."""

    def __init__(self, build: _Queries, *examples: Any) -> None:
        super().__init__(build, *examples)

    def rows(self, *values: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._fetch(values)[1]]


class CompiledObjects(_Prepared, Generic[_M]):
    """A query of whole rows, with those that `select_related` names. Nothing may be annotated or deferred."""

    def __init__(self, build: Callable[..., QuerySet[_M]], *examples: Any) -> None:
        super().__init__(build, *examples)

    def fetch(self, *values: Any) -> list[_M]:
        compiled, rows = self._fetch(values)
        if compiled.objects is None:
            raise TypeError("a query of columns is a CompiledQuery")
        return [compiled.objects.make(row) for row in rows]

    def first(self, *values: Any) -> _M | None:
        """None when there is no such row; the query itself says how many it asks for."""
        return next(iter(self.fetch(*values)), None)


class CompiledUpdate(_Prepared):
    """An update of one table. build: returns the rows and what is set (as `QuerySet.update` takes it)."""

    def __init__(self, build: Callable[..., tuple[QuerySet[Any], dict[str, Any]]], *examples: Any) -> None:
        super().__init__(build, *examples)

    def run(self, *values: Any) -> int:
        """How many rows it changed."""
        with connection.cursor() as cursor:
            self._execute(cursor, values)
            return int(cursor.rowcount)

    def _compiler(self, built: tuple[QuerySet[Any], dict[str, Any]]) -> SQLCompiler:
        rows, changes = built
        query: Any = rows.query.chain(UpdateQuery)
        query.add_update_values(changes)
        compiler: SQLCompiler = query.get_compiler(connection=connection)
        return compiler


_ROWS_AT_ONCE = 20  # far below the 999 values that a statement may have everywhere


class CompiledInsert(Generic[_M]):
    """The insertion of new rows of one model, for which no signal is sent. Keys that the database makes up are not read
    back: give the model's rows their own where they matter.

    fixed: columns that are the same expression in every row, as `Now()`, whatever the object says.
    """

    def __init__(self, model: type[_M], **fixed: Expression) -> None:
        self._model = model
        self._fixed = fixed
        self._compiled: dict[str, _Insertion] = {}

    def run(self, rows: Sequence[_M]) -> None:
        """Raises IntegrityError as `bulk_create` does."""
        compiled = self._compiled.get(connection.vendor) or self._compile()
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            values = [
                field.get_db_prep_save(field.pre_save(row, add=True), connection)
                for row in some
                for field in compiled.fields
            ]
            with connection.cursor() as cursor:
                cursor.execute(compiled.begin + ", ".join([compiled.row] * len(some)), values)
        for row in rows:
            row._state.adding, row._state.db = False, connection.alias

    def _compile(self) -> "_Insertion":
        fields = [field for field in self._model._meta.concrete_fields if not isinstance(field, AutoField)]
        places = [self._expression(field) if field.name in self._fixed else "%s" for field in fields]
        name = connection.ops.quote_name
        columns = ", ".join(name(str(field.column)) for field in fields)
        begin = " ".join(("INSERT INTO", name(self._model._meta.db_table), f"({columns})", "VALUES "))
        changing = tuple(field for field in fields if field.name not in self._fixed)
        row = f"({', '.join(places)})"
        compiled = self._compiled[connection.vendor] = _Insertion(begin, row, changing)
        return compiled

    def _expression(self, field: "Field[Any, Any]") -> str:
        compiler: Any = InsertQuery(self._model).get_compiler(connection=connection)
        sql, parameters = compiler.compile(compiler.prepare_value(field, self._fixed[field.name]))
        if parameters:
            raise TypeError(f"{field.name}: an expression with values of its own cannot be fixed")
        return str(sql)


@dataclass(frozen=True)
class _Insertion:
    """row: the places of one row; fields: what fills them, in their order."""

    begin: str
    row: str
    fields: tuple["Field[Any, Any]", ...]


def _adapted(value: Any) -> Any:
    """A value as Django would hand it to this database."""
    if isinstance(value, UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value
