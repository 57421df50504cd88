"""Serializes transactions that count rows against a limit before they add one."""

from django.db import connection

# First key of the PostgreSQL advisory locks that guard limits.
_LOCK_CLASS = 0x6B6D


def serialize(name: str) -> None:
    """Block until no other transaction holds this name, and hold it until the current transaction ends.

    PostgreSQL: a transaction-level advisory lock. SQLite: nothing, because it allows only one writing transaction at a
    time.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCK_CLASS, name])
