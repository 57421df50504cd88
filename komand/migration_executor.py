"""Migrations beside running processes: each in one transaction, under a short lock timeout, and tried again.

A migration locks all tables that it uses at its start, and waits longer for them with each attempt. An empty database
gets its tables in one transaction.

Django records a migration that creates indexes or foreign keys after its transaction: a kill in between leaves a schema
that cannot be migrated any more. And an ALTER TABLE that waits for a lock blocks everybody who comes after it.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import ProjectState

from komand import empty_database, foreign_keys
from komand.migration_locks import SHORT_MILLISECONDS, lock_tables

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 300.0
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.3, 1.5
_BUSY = {"55P03", "40P01"}  # lock_not_available, deadlock_detected
_ADVISORY_LOCK = 7_026_318_401  # of all processes that migrate this database


class PatientExecutor(MigrationExecutor):
    """Applies and reverts each migration in one transaction with its record, and tries again while tables are busy.

    Each migration is there as a whole or not at all, whenever the process is killed, so that the next start goes on.
    """

    def migrate(self, *arguments: Any, **options: Any) -> ProjectState:
        state = super().migrate(*arguments, **options)
        foreign_keys.validate(self.connection)
        return state

    def _migrate_all_forwards(
        self,
        state: ProjectState,
        plan: list[tuple[Migration, bool]],
        full_plan: list[tuple[Migration, bool]],
        fake: bool,
        fake_initial: bool,
    ) -> ProjectState:
        if plan == full_plan and not fake and not fake_initial:
            first = empty_database.first_ones(plan)
            with self._in_one_transaction(), self.connection.schema_editor() as editor:
                empty_database.create_tables(state, first, editor)
                for migration in first:
                    self._record(migration)
            plan = plan[len(first) :]
        forwards: Any = super()
        after: ProjectState = forwards._migrate_all_forwards(state, plan, full_plan, fake, fake_initial)
        return after

    def _record(self, migration: Migration) -> None:
        if self.progress_callback:
            self.progress_callback("apply_start", migration)
        self.record_migration(migration)  # type: ignore[arg-type, call-arg] # the types are those of the recorder
        if self.progress_callback:
            self.progress_callback("apply_success", migration)

    def apply_migration(
        self, state: ProjectState, migration: Migration, fake: bool = False, fake_initial: bool = False
    ) -> ProjectState:
        def attempt() -> ProjectState:  # applying changes the state: each try has its own
            return super(PatientExecutor, self).apply_migration(state.clone(), migration, fake, fake_initial)

        return self._try_until_free(migration, state, attempt)

    def unapply_migration(self, state: ProjectState, migration: Migration, fake: bool = False) -> ProjectState:
        def attempt() -> ProjectState:
            return super(PatientExecutor, self).unapply_migration(state, migration, fake)

        return self._try_until_free(migration, state, attempt)

    def _try_until_free(
        self, migration: Migration, before: ProjectState, attempt: Callable[[], ProjectState]
    ) -> ProjectState:
        deadline, failed = time.monotonic() + PATIENCE_SECONDS, 0
        while True:
            try:
                with self._in_one_transaction(migration.atomic):
                    if migration.atomic and self.connection.vendor == "postgresql":
                        lock_tables(self.connection, migration, before, failed)
                    return attempt()
            except OperationalError as error:
                if getattr(error.__cause__, "sqlstate", "") not in _BUSY:
                    raise
                if time.monotonic() > deadline:
                    problem = f"{migration} waited {PATIENCE_SECONDS:.0f} s for tables that other processes have locked"
                    raise OperationalError(f"{problem}. Run it again; earlier migrations are kept: {error}") from error
                failed += 1
                logger.warning("%s waits for tables that others use", migration)
                time.sleep(random.uniform(_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))  # noqa: S311 - a pause

    @contextmanager
    def _in_one_transaction(self, is_atomic: bool = True) -> Iterator[None]:
        connection = self.connection
        if not is_atomic:
            yield
        elif connection.vendor == "sqlite":
            connection.disable_constraint_checking()  # has no effect inside a transaction
            try:
                with transaction.atomic(using=connection.alias):
                    yield
            finally:
                connection.enable_constraint_checking()
        else:
            with transaction.atomic(using=connection.alias):
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = {SHORT_MILLISECONDS}")
                yield


@contextmanager
def only_migrator(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Wait until no other process migrates this database. SQLite has one writer at a time anyway."""
    if connection.vendor != "postgresql":
        yield
        return
    _advisory(connection, "pg_advisory_lock")
    try:
        yield
    finally:
        _advisory(connection, "pg_advisory_unlock")


def _advisory(connection: Any, function: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [_ADVISORY_LOCK])
