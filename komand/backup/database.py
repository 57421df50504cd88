"""A consistent copy of the database while it is in use, and its way back into an empty one."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from komand.backup.manifest import BadBackupError, Manifest
from sessions_app.integrity_checks import list_stored_files

_SQLITE = "komand.sqlite3"
_TABLES = "tables"
_PIECE = 1 << 20


def copy(folder: Path, manifest: Manifest) -> list[str]:
    """Copy the database as it is at one moment into the folder. Does not block writers.

    Returns the paths of the files that rows of the copy refer to.
    """
    return (_copy_sqlite if connection.vendor == "sqlite" else _copy_postgres)(folder, manifest)


def is_empty() -> bool:
    """Return whether the database holds no installation yet."""
    if "auth_user" not in connection.introspection.table_names():
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM auth_user LIMIT 1")
        return cursor.fetchone() is None


def check_fit(manifest: Manifest) -> None:
    """Raise BadBackupError if the backup is of another kind of database, or of a newer release."""
    if manifest.database != connection.vendor:
        raise BadBackupError(
            f"The backup was made with {manifest.database}, but this installation uses {connection.vendor}."
            " Change DATABASE_URL."
        )
    known = MigrationLoader(connection).disk_migrations
    newer = [f"{app}.{name}" for app, name in manifest.migrations if (app, name) not in known]
    if newer:
        raise BadBackupError(
            f"The backup was made by a newer release ({manifest.version}), with the migration {newer[0]}."
        )


def load(folder: Path, manifest: Manifest) -> None:
    """Fill the empty database from the folder. Can be repeated after a crash. Raises BadBackupError."""
    (_load_sqlite if connection.vendor == "sqlite" else _load_postgres)(folder, manifest)
    found = _count_rows(sorted(manifest.rows))
    if found != manifest.rows:
        differing = sorted(name for name in manifest.rows if found.get(name) != manifest.rows[name])
        raise BadBackupError(f"The restored database differs from the backup in {', '.join(differing)}.")


def _copy_sqlite(folder: Path, manifest: Manifest) -> list[str]:
    connection.ensure_connection()
    with closing(sqlite3.connect(folder / _SQLITE)) as target:
        connection.connection.backup(target)  # one read transaction
        target.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        problem = target.execute("PRAGMA integrity_check").fetchone()[0]
        if problem != "ok":
            raise BadBackupError(f"The copy of the database is damaged: {problem}")
        manifest.migrations = [list(row) for row in target.execute("SELECT app, name FROM django_migrations")]
        tables = target.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        for (name,) in tables.fetchall():
            manifest.rows[name] = target.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0]  # noqa: S608
        return list_stored_files(target.execute)


def _load_sqlite(folder: Path, manifest: Manifest) -> None:
    connections.close_all()
    target = Path(settings.DATABASES["default"]["NAME"])
    draft = target.with_name(f".{target.name}.restoring")
    shutil.copyfile(folder / _SQLITE, draft)
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    for suffix in ("-wal", "-shm"):  # of the empty database
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    draft.replace(target)


def _copy_postgres(folder: Path, manifest: Manifest) -> list[str]:
    (folder / _TABLES).mkdir()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        manifest.migrations = [list(key) for key in MigrationRecorder(connection).applied_migrations()]
        for name in sorted(connection.introspection.table_names(cursor)):
            described = connection.introspection.get_table_description(cursor, name)
            manifest.columns[name] = [column.name for column in described]
            statement = f"COPY {_place(name, manifest)} TO STDOUT"
            with (folder / _TABLES / name).open("wb") as file, cursor.copy(statement) as rows:
                for piece in rows:
                    file.write(piece)
            manifest.rows[name] = cursor.rowcount
        # Read last: sequences do not belong to the snapshot, and must not be behind it.
        cursor.execute(
            "SELECT sequencename, last_value FROM pg_sequences"
            " WHERE schemaname = current_schema() AND last_value IS NOT NULL"
        )
        manifest.sequences = dict(cursor.fetchall())
        return list_stored_files(lambda query: cursor.execute(query) or cursor.fetchall())


def _load_postgres(folder: Path, manifest: Manifest) -> None:
    _migrate_to(manifest)
    quote = connection.ops.quote_name
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(quote(name) for name in manifest.columns)}")
        for name in manifest.columns:
            statement = f"COPY {_place(name, manifest)} FROM STDIN"
            with (folder / _TABLES / name).open("rb") as file, cursor.copy(statement) as rows:
                while piece := file.read(_PIECE):
                    rows.write(piece)
        for name, value in manifest.sequences.items():
            cursor.execute("SELECT setval(%s::regclass, %s)", [quote(name), value])


def _migrate_to(manifest: Manifest) -> None:
    """Create the schema of the backup: foreign keys are checked at the end of the transaction that fills it.

    By the files that a squashed migration replaces: a backup of an earlier release has a part of them.
    """
    executor = MigrationExecutor(connection)
    executor.loader = MigrationLoader(connection, replace_migrations=False)
    known = executor.loader.disk_migrations
    wanted = {(app, name) for app, name in manifest.migrations if not known[app, name].replaces}
    parents = {
        parent.key
        for key in wanted
        for parent in executor.loader.graph.node_map[key].parents
        if parent.key[0] == key[0]
    }
    executor.migrate(sorted(wanted - parents))


def _place(name: str, manifest: Manifest) -> str:
    quote = connection.ops.quote_name
    return f"{quote(name)} ({', '.join(quote(column) for column in manifest.columns[name])})"


def _count_rows(tables: list[str]) -> dict[str, Any]:
    counts = {}
    with connection.cursor() as cursor:
        for name in tables:
            cursor.execute(f"SELECT COUNT(*) FROM {connection.ops.quote_name(name)}")  # noqa: S608 - tables of ours
            counts[name] = cursor.fetchone()[0]
    return counts
