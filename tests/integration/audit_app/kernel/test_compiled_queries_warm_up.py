"""Statements are compiled before the first request, which would otherwise wait for it."""

import pytest
from django.db.models.sql.compiler import SQLCompiler

from agents_app import hot_queries
from agents_app.runs import transitions
from audit_app.kernel.compile_ahead import compile_all, forget_all


@pytest.mark.django_db(transaction=True)  # as at a start, there is no transaction around it
def test_all_statements_are_compiled_at_once_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_all()
    compile_all()
    assert all(statement._compiled for statement in (hot_queries.GET_RUN, hot_queries.INSERT_RUN, transitions._CLAIM))

    def refuse(self: SQLCompiler, *args: object, **kwargs: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(SQLCompiler, "as_sql", refuse)
    compile_all()
