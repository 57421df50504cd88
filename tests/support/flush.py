"""Empties the database after a test with real transactions: only tables with rows, in one transaction.

Django's flush also deletes and creates again what `migrate` has filled, which takes ten times as long as most tests.
"""

from functools import cache
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction

from audit_app.full_text import index

# Filled by `migrate`, the same for every test.
_KEPT = {"django_content_type", "auth_permission"}


@cache
def _filled_tables_query() -> str:
    """Return one query for the names of the tables with rows."""
    names = set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - _KEPT
    quote = connection.ops.quote_name
    return " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {quote(name)})" for name in sorted(names))


def empty_tables() -> None:
    """Delete all rows, and the file that would show later tests that the end of the audit log was removed.

    Foreign keys are checked at the commit, so the order does not matter.
    """
    Path(settings.DATA_DIR, "audit.head").unlink(missing_ok=True)
    with connection.cursor() as cursor:
        cursor.execute(_filled_tables_query())
        filled = [name for (name,) in cursor.fetchall()]
    if "komand_search_entry" in filled:
        index.clear()  # with the words, which are in a table of their own on SQLite
    if filled:
        with transaction.atomic(), connection.cursor() as cursor:
            for name in filled:
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(name)}")
