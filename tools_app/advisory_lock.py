"""Makes whoever counts rows against a limit, and then adds one, wait for the others who do."""

from django.db import connection

# Of the advisory locks of PostgreSQL that this product takes: those of limits.
_LOCK_CLASS = 0x6B6D


def serialize(name: str) -> None:
    """One transaction at a time goes on from here under this name, until it ends. On SQLite there is only one that
    writes anyway."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCK_CLASS, name])
