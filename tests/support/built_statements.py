"""The statements that Django builds anew while a test looks, instead of using a compiled one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db.models.sql.compiler import SQLCompiler, SQLUpdateCompiler

_BUILDERS = (SQLCompiler, SQLUpdateCompiler)  # of queries, which deletions and insertions of many rows use too


@contextmanager
def built_statements() -> Iterator[list[str]]:
    """Collect the SQL of every query and update that is built in the block, by any thread."""
    built: list[str] = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        for builder in _BUILDERS:
            monkeypatch.setattr(builder, "as_sql", _collecting(builder.as_sql, built))
        yield built


def _collecting(as_sql: Any, built: list[str]) -> Any:
    def collect(self: SQLCompiler, *args: Any, **kwargs: Any) -> Any:
        sql = as_sql(self, *args, **kwargs)
        built.append(str(sql[0]))
        return sql

    return collect
