"""A question: one statement that answers which of several compiled queries find a row."""

from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections

from audit_app.kernel.compiled_queries import Compiled, CompiledObjects, CompiledQuery, CompiledStatement


class CompiledQuestion(CompiledStatement):
    """Several compiled queries in one statement, which answers which of them find a row."""

    def __init__(self, queries: Sequence[CompiledQuery | CompiledObjects[Any]]) -> None:
        self._queries = queries
        self._compiled = {}

    def answers(self, **values: Any) -> list[bool]:
        """Return an answer for each query, in order. values: the parameters of all of them."""
        if not self._queries:
            return []
        database = connections[DEFAULT_DB_ALIAS]
        with database.cursor() as cursor:
            self._execute(database, cursor, values)
            return [bool(answer) for answer in cursor.fetchone()]

    def _compile(self) -> "Compiled":
        asked = [query.built().query.exists().get_compiler(connection=connection).as_sql() for query in self._queries]
        sql = "SELECT " + ", ".join(f"EXISTS ({sql})" for sql, _ in asked)
        compiled = Compiled(sql, tuple(part for _, parameters in asked for part in parameters), None)
        self._compiled[connection.vendor] = compiled
        return compiled
