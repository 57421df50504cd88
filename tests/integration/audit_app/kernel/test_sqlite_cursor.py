"""Placeholders of statements on SQLite, which are replaced once for each statement."""

from unittest import mock

import pytest
from django.db import connection
from django.db.backends.sqlite3 import base

from audit_app.kernel.compiled_queries import CompiledQuery
from audit_app.models import TimelineHead

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite_only]

FIND = CompiledQuery(lambda seq: TimelineHead.objects.filter(seq=seq).values_list("ts"))


def test_statements_with_each_kind_of_placeholder_are_executed() -> None:
    with connection.cursor() as cursor:
        for _ in range(2):
            assert cursor.execute("SELECT %s, '%%s', 7 %% 4", ["a"]).fetchone() == ("a", "%s", 3)
            assert cursor.execute("SELECT %(one)s, %(two)s, %(one)s", {"one": 1, "two": 2}).fetchone() == (1, 2, 1)
            assert cursor.execute("SELECT '%s'").fetchone() == ("%s",)


def test_the_placeholders_of_a_statement_are_replaced_once() -> None:
    FIND.rows(seq=1)
    with mock.patch.object(base, "FORMAT_QMARK_REGEX", mock.Mock()) as pattern:
        FIND.rows(seq=2)
    assert not pattern.mock_calls
