"""The schema of a database as text that does not depend on the order of columns and constraints."""

import re
from collections.abc import Iterator

from django.db import connection

_POSTGRES = """
    SELECT 'column', table_name, column_name, concat_ws(' ', data_type, character_maximum_length, numeric_precision,
        is_nullable, column_default, is_identity, identity_generation, is_generated, collation_name)
    FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid)
    FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT 'sequence', sequencename, data_type::text, increment_by::text FROM pg_sequences
    UNION ALL SELECT 'function', proname, prosrc, '' FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    ORDER BY 1, 2, 3, 4"""


def read_schema() -> list[list[str]]:
    """Return every table, column, index, constraint and trigger: of which kind, of which table, its name, its text."""
    with connection.cursor() as cursor:
        if connection.vendor != "sqlite":
            cursor.execute(_POSTGRES)
            return [list(row) for row in cursor.fetchall()]
        cursor.execute("SELECT type, tbl_name, name, coalesce(sql, '') FROM sqlite_master ORDER BY 1, 2, 3")
        return [[*row[:3], *sorted(_parts(" ".join(row[3].split())))] for row in cursor.fetchall()]


def _parts(statement: str) -> Iterator[str]:
    """Yield what precedes the definitions of a table, each of them, and what follows; another statement as it is."""
    if not statement.startswith("CREATE TABLE"):
        yield statement
        return
    opened, part = 0, ""
    for piece in re.findall(r"'(?:[^']|'')*'|\"[^\"]*\"|.", statement):
        opened += {"(": 1, ")": -1}.get(piece, 0)
        if piece == "," and opened == 1 or (piece, opened) in {("(", 1), (")", 0)}:
            yield part.strip()
            part = ""
        else:
            part += piece
    yield part.strip()
