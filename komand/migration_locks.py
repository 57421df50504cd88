"""Locks of all tables that a migration uses, taken at its start: none is held while another is waited for long.

A migration that alters one busy table and then refers to another meets transactions that use both: each waits for the
other. Here only the first table is waited for long, while nothing is held. A transaction that has waited for a second
makes PostgreSQL look for deadlocks, which may end that transaction. None waits for the migration before its first
request: 0.8 s after that, a table that is still busy ends the attempt, which gives all locks back.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import AddField, AddIndex, AlterField, CreateModel, Migration, SeparateDatabaseAndState
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.migrations.utils import resolve_relation
from django.db.models import Field

# How long a statement waits for a table: shorter than PostgreSQL's deadlock_timeout.
SHORT_MILLISECONDS = 500
_SECONDS_FOR_ALL = 0.8  # from the first request on, shorter too
_LONGEST_MILLISECONDS = 4000
_ALTERED, _REFERRED_TO = "ACCESS EXCLUSIVE", "SHARE ROW EXCLUSIVE"  # the latter lets others read


def lock_tables(connection: BaseDatabaseWrapper, migration: Migration, before: ProjectState, attempt: int) -> None:
    """Lock the tables of a migration within its transaction. Raises OperationalError if they stay busy.

    before: the state without the migration
    attempt: from 0; the wait for the first table doubles with each, and each begins with another table, since only
        transactions that use the tables in the order of this one can be waited for.
    """
    modes = sorted(_modes_of(connection, migration, before).items())
    first = attempt % len(modes) if modes else 0
    milliseconds = min(SHORT_MILLISECONDS * 2**attempt, _LONGEST_MILLISECONDS)
    with connection.cursor() as cursor:
        deadline = time.monotonic() + _SECONDS_FOR_ALL
        for table, mode in (*modes[first:], *modes[:first]):
            cursor.execute(f"SET LOCAL lock_timeout = {milliseconds}")
            cursor.execute(f"LOCK TABLE {connection.ops.quote_name(table)} IN {mode} MODE")
            milliseconds = max(1, int(1000 * (deadline - time.monotonic())))
        cursor.execute(f"SET LOCAL lock_timeout = {SHORT_MILLISECONDS}")


def _modes_of(connection: BaseDatabaseWrapper, migration: Migration, before: ProjectState) -> dict[str, str]:
    """Return the lock that each existing table needs which the migration alters, creates or refers to."""
    # A state without rendered models: changing it is cheap.
    after = ProjectState({key: model.clone() for key, model in before.models.items()})
    models = migration.mutate_state(after, preserve=False).models | before.models
    modes: dict[str, str] = {}
    for model, mode in _uses_of(migration.operations, migration.app_label):
        if model in models:
            table = models[model].options.get("db_table") or "_".join(model)
            modes[table] = _ALTERED if _ALTERED in (mode, modes.get(table)) else mode
    existing = set(connection.introspection.table_names())
    return {table: mode for table, mode in modes.items() if table in existing}


def _uses_of(operations: Iterable[Operation], app: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the models that the operations use, and with which lock."""
    for operation in operations:
        if isinstance(operation, SeparateDatabaseAndState):
            yield from _uses_of(operation.database_operations, app)
            continue
        if not (name := getattr(operation, "model_name", None) or getattr(operation, "name", None)):
            continue  # statements or code, which lock what they use themselves
        name = str(name).lower()
        yield (app, name), _REFERRED_TO if isinstance(operation, AddIndex) else _ALTERED
        for field in _fields_of(operation):
            remote: Any = field.remote_field and field.remote_field.model
            if remote:
                yield resolve_relation(remote, app, name), _REFERRED_TO


def _fields_of(operation: Operation) -> list["Field[Any, Any]"]:
    if isinstance(operation, CreateModel):
        return [field for _, field in operation.fields]
    return [operation.field] if isinstance(operation, AddField | AlterField) else []
