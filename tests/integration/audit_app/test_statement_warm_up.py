"""Statements are compiled before the first request, which would otherwise wait for it."""

import pytest
from django.db.models.sql.compiler import SQLCompiler

from agents_app import hot_queries
from audit_app.kernel.compiled_queries import CompiledInsert, CompiledQuery, compile_all
from audit_app.models import AuditEntry


def test_all_statements_are_compiled_at_once_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    query = CompiledQuery(lambda action: AuditEntry.objects.filter(action=action).values_list("pk"))
    insertion = CompiledInsert(AuditEntry)
    compile_all()
    assert all(statement._compiled for statement in (query, insertion, hot_queries.GET_RUN, hot_queries.INSERT_RUN))

    def refuse(self: SQLCompiler, *args: object, **kwargs: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(SQLCompiler, "as_sql", refuse)
    compile_all()
