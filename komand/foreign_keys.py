"""Validation of foreign keys that migrations have added with NOT VALID: beside writers, which wait for nothing."""

import logging

from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

_UNVALIDATED = """
    SELECT conrelid::regclass::text, quote_ident(conname) FROM pg_constraint
    WHERE contype = 'f' AND NOT convalidated AND connamespace = current_schema()::regnamespace ORDER BY 1, 2
"""


def find_unvalidated(connection: BaseDatabaseWrapper) -> list[tuple[str, str]]:
    """Return table and name, quoted, of each foreign key that is not validated yet. SQLite has none."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(_UNVALIDATED)
        return list(cursor.fetchall())


def validate(connection: BaseDatabaseWrapper) -> None:
    """Validate all that are not, each in a transaction of its own. A kill leaves the rest to the next call."""
    for table, name in find_unvalidated(connection):
        logger.debug("validates the foreign key %s of %s", name, table)
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")
