"""Statements that are compiled once.

Django builds the SQL of a query anew at each use, which for a large one costs ten times what the database needs to
answer it. The few statements that a message waits for are compiled at their first use, once for each kind of database.

A statement is given as a function that returns Django's own query. The function's arguments are the values that change
with each use; they are passed by name:

    FIND_TURN = CompiledQuery(lambda run_id: Turn.objects.filter(run_id=run_id).values_list("pk"))
    FIND_TURN.rows(run_id=run.id)

The function is called with a `Param` for each argument. A `Param` may be compared with a column (`=`, `<`, `<=`, `>`,
`>=`), added to a number or set by an update. Anything else, such as a limit, a whole `IN` list, a time span or a value
that a lookup transforms, is a TypeError when the statement is compiled. An insertion only needs the model.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.models import Case, Expression, Field, Model, QuerySet, When
from django.db.models.expressions import CombinedExpression, ExpressionList
from django.db.models.fields import AutoField, FloatField, IntegerField
from django.db.models.fields.json import JSONField
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual
from django.db.models.sql import InsertQuery, Query, UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

from audit_app.kernel.row_objects import RowObjects

_M = TypeVar("_M", bound=Model)
T = TypeVar("T")
_COMPARISONS = (Exact, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
# Types of values that a field of this very class stores as they are, as None. Django finds that out by five calls.
_AS_IS: dict[type, type] = {
    **dict.fromkeys((models.CharField, models.TextField), str),
    **dict.fromkeys((IntegerField, models.BigIntegerField, models.PositiveIntegerField), int),
    **{models.BooleanField: bool, FloatField: float},
    **dict.fromkeys((models.UUIDField, JSONField, models.ForeignKey), type(None)),
}


class Param(Expression):
    """The place of a value that is passed, under this name, when the statement is executed."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return "%s", (self,)

    def get_group_by_cols(self) -> list[Any]:
        """Return no column to group by, as of a constant: the value may be compared with an aggregate."""
        return []


def padded(items: list[T]) -> list[T]:
    """Return the items, the last one repeated up to a power of two, so that few numbers of values are compiled."""
    count = 1 << (len(items) - 1).bit_length()
    return items + items[-1:] * (count - len(items))


class CompiledStatement:
    """Base of the statements that Django builds. build: returns the query; called with a `Param` for each argument."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build
        self._compiled: dict[str, Compiled] = {}

    def compile(self) -> None:
        """Compile the statement for the database of this process, unless that is done."""
        if connection.vendor not in self._compiled:
            self._compile()

    def _execute(self, database: BaseDatabaseWrapper, cursor: CursorWrapper, values: dict[str, Any]) -> "Compiled":
        compiled = self._compiled.get(database.vendor) or self._compile()
        if values.keys() != compiled.names:
            raise TypeError(f"expected the values {sorted(compiled.names)}, got {sorted(values)}")
        parameters = list(compiled.parameters)
        for place, name in compiled.places:
            parameters[place] = _adapted(database, name, values[name])
        cursor.execute(compiled.sql, parameters)
        return compiled

    def _fetch(self, values: dict[str, Any]) -> tuple["Compiled", Iterator[list[Any]]]:
        """Execute the statement and return its rows, each value converted as Django does."""
        # Not `django.db.connection`, which looks up the thread's connection for each of its attributes.
        database = connections[DEFAULT_DB_ALIAS]
        with database.cursor() as cursor:
            compiled = self._execute(database, cursor, values)
            return compiled, map(compiled.converted, cursor.fetchall())

    def _compile(self) -> "Compiled":
        compiled = self._translate(self.built())
        if unused := inspect.signature(self._build).parameters.keys() - compiled.names:
            raise TypeError(f"the statement does not contain the parameters {sorted(unused)}")
        self._compiled[connection.vendor] = compiled
        return compiled

    def built(self) -> Any:
        """Return Django's own query, with a `Param` for each argument."""
        return self._build(**{name: Param(name) for name in inspect.signature(self._build).parameters})

    def _translate(self, built: Any) -> "Compiled":
        compiler = self._compiler(built)
        _check(compiler.query)
        sql, parameters = compiler.as_sql()
        return Compiled(sql, tuple(parameters), compiler)

    def _compiler(self, built: Any) -> SQLCompiler:
        compiler: SQLCompiler = built.query.get_compiler(connection=connection)
        return compiler


def _check(node: Any) -> None:
    """Raise TypeError for a parameter that stands where Django would transform its value or misread its type."""
    parts = (node.where if isinstance(node, Query) else node).get_source_expressions()
    for part in parts:
        if not isinstance(part, Param):
            if hasattr(part, "get_source_expressions"):
                _check(part)
        elif not _may_stand_in(node, [other for other in parts if other is not part]):
            raise TypeError(f"the parameter {part.name!r} cannot be placed in {node!r}")


def _may_stand_in(node: Any, others: list[Any]) -> bool:
    kinds = [getattr(other, "_output_field_or_none", None) for other in others]
    if isinstance(node, CombinedExpression):
        return all(isinstance(kind, (IntegerField, FloatField)) for kind in kinds)
    if isinstance(node, _COMPARISONS):
        return not isinstance(kinds[0], JSONField)
    return isinstance(node, (Case, When, ExpressionList))  # a list: `IN` or `BETWEEN` of several parameters


class Compiled:
    """A statement with its parameters, the places of the passed ones, and the conversion of its rows.

    Django's iterables derive the conversion from the compiled query at each use.
    """

    def __init__(self, sql: str, parameters: tuple[Any, ...], compiler: SQLCompiler | None) -> None:
        if with_literals := getattr(connection, "with_literals", None):
            sql, parameters = with_literals(sql, parameters)
        self.sql, self.parameters = sql, parameters
        self.places = [(place, part.name) for place, part in enumerate(parameters) if isinstance(part, Param)]
        self.names = {name for _, name in self.places}
        self._converters: list[Any] = []
        self.objects: RowObjects | None = None
        if compiler is not None:
            columns = [column[0] for column in compiler.select or ()]
            found = compiler.get_converters(columns).items()
            self._converters = [(place, ([*map(_faster, some)], expression)) for place, (some, expression) in found]
            self.objects = RowObjects.of(compiler) if compiler.query.default_cols and compiler.klass_info else None

    def converted(self, row: Sequence[Any]) -> list[Any]:
        values = list(row)
        for place, (converters, expression) in self._converters:
            for convert in converters:
                values[place] = convert(values[place], expression, connection)
        return values


def _faster(convert: Any) -> Any:
    """Return a converter that returns the same as this one of Django's, sooner."""
    is_json = getattr(convert, "__func__", None) is JSONField.from_db_value and convert.__self__.decoder is None
    return partial(_json_value, convert) if is_json else convert


def _json_value(convert: Any, value: Any, expression: Any, database: Any) -> Any:
    if value == "{}":
        return {}
    return [] if value == "[]" else convert(value, expression, database)


class CompiledQuery(CompiledStatement):
    """A query of one column or several (`values_list`)."""

    def rows(self, **values: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._fetch(values)[1]]


class CompiledObjects(CompiledStatement, Generic[_M]):
    """A query of whole rows, with annotations and the rows that `select_related` names. Nothing may be deferred."""

    def __init__(self, build: Callable[..., QuerySet[_M]]) -> None:
        super().__init__(build)

    def fetch(self, **values: Any) -> list[_M]:
        compiled, rows = self._fetch(values)
        if compiled.objects is None:
            raise TypeError("a query of columns is a CompiledQuery")
        return [compiled.objects.make(row) for row in rows]

    def first(self, **values: Any) -> _M | None:
        """Return the first object or None. The query should limit its rows itself."""
        return next(iter(self.fetch(**values)), None)


class CompiledUpdate(CompiledStatement):
    """An update of one table. build: returns the rows and their new values (as `QuerySet.update` takes them)."""

    def run(self, **values: Any) -> int:
        """Return the number of rows that were changed."""
        database = connections[DEFAULT_DB_ALIAS]
        with database.cursor() as cursor:
            self._execute(database, cursor, values)
            return int(cursor.rowcount)

    def _compiler(self, built: tuple[QuerySet[Any], dict[str, Any]]) -> SQLCompiler:
        rows, changes = built
        query: Any = rows.query.chain(UpdateQuery)
        query.annotations = {}
        query.add_update_values(changes)
        for _, _, value in query.values:
            if hasattr(value, "resolve_expression"):
                _check(value.resolve_expression(query, allow_joins=False, for_save=True))
        compiler: SQLCompiler = query.get_compiler(connection=connection)
        return compiler


class CompiledReturning(CompiledUpdate, CompiledQuery, CompiledObjects[_M]):
    """An update that returns what its query selects of the changed rows, as they are afterwards.

    Subqueries in it may see the database as it was before the update waited for a lock.
    """

    def __init__(self, build: Callable[..., tuple[QuerySet[_M, Any], dict[str, Any]]]) -> None:
        CompiledStatement.__init__(self, build)

    def _translate(self, built: tuple[QuerySet[Any], dict[str, Any]]) -> "Compiled":
        changed = super()._translate(built)
        compiler: Any = built[0].query.get_compiler(connection=connection)
        compiler.setup_query()
        columns = []
        parameters = changed.parameters
        for column, (sql, values), alias in compiler.select:
            _check(column)
            columns.append(f"{sql} AS {connection.ops.quote_name(alias)}" if alias else sql)
            parameters += tuple(values)
        return Compiled(f"{changed.sql} RETURNING {', '.join(columns)}", parameters, compiler)


_ROWS_AT_ONCE = 20  # far below the 999 parameters that every database allows


class CompiledInsert(Generic[_M]):
    """The insertion of new rows of one model.

    Sends no signals and does not read back generated keys: set the keys of the rows where they matter.

    fixed: columns that are the same expression in every row, such as `Now()`, whatever value the object has.
    """

    def __init__(self, model: type[_M], **fixed: Expression) -> None:
        self._model = model
        self._fixed = fixed
        # The beginning of the statement, the placeholders of a row, and the fields that fill them, with their `_AS_IS`.
        self._compiled: dict[str, tuple[str, str, list[tuple[Any, type | None]]]] = {}

    def compile(self) -> None:
        """Compile the statement for the database of this process, unless that is done."""
        if connection.vendor not in self._compiled:
            self._compile()

    def run(self, rows: Sequence[_M]) -> None:
        """Insert the rows. Raises IntegrityError as `bulk_create` does."""
        database = connections[DEFAULT_DB_ALIAS]
        begin, places, fields = self._compiled.get(database.vendor) or self._compile()
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            values = [value for row in some for value in _values(row, fields, database)]
            with database.cursor() as cursor:
                cursor.execute(begin + ", ".join([places] * len(some)), values)
        for row in rows:
            row._state.adding, row._state.db = False, database.alias

    def _compile(self) -> tuple[str, str, list[tuple[Any, type | None]]]:
        fields = [field for field in self._model._meta.concrete_fields if not isinstance(field, AutoField)]
        places = [self._expression(field) if field.name in self._fixed else "%s" for field in fields]
        name = connection.ops.quote_name
        columns = ", ".join(name(str(field.column)) for field in fields)
        begin = " ".join(("INSERT INTO", name(self._model._meta.db_table), f"({columns})", "VALUES "))
        changing = [(field, _AS_IS.get(type(field))) for field in fields if field.name not in self._fixed]
        compiled = self._compiled[connection.vendor] = begin, f"({', '.join(places)})", changing
        return compiled

    def _expression(self, field: "Field[Any, Any]") -> str:
        compiler: Any = InsertQuery(self._model).get_compiler(connection=connection)
        sql, parameters = compiler.compile(compiler.prepare_value(field, self._fixed[field.name]))
        if parameters:
            raise TypeError(f"{field.name}: an expression with values of its own cannot be fixed")
        return str(sql)


def _values(row: Model, fields: list[tuple[Any, type | None]], database: BaseDatabaseWrapper) -> Iterator[Any]:
    """Yield the values of a row as the database takes them."""
    for field, as_is in fields:
        value = getattr(row, field.attname) if as_is else field.pre_save(row, add=True)
        is_taken = as_is and (value is None or type(value) is as_is)
        yield value if is_taken else field.get_db_prep_save(value, database)


def _adapted(database: BaseDatabaseWrapper, name: str, value: Any) -> Any:
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, UUID):
        return value if database.features.has_native_uuid_field else value.hex
    if isinstance(value, datetime):
        return database.ops.adapt_datetimefield_value(value)
    raise TypeError(f"{name!r} must be text, a number, a UUID or a datetime, not {value!r}")
