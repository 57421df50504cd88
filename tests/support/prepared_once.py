"""Preparations that one pytest worker makes for all: the migrated database. And those of a process: what it finds."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection
from whitenoise.middleware import WhiteNoiseMiddleware

from tests import on_postgres


@contextmanager
def database_template(folder: Path) -> Iterator[bool]:
    """Have the first worker migrate its database, and the others copy it. Wraps the creation of the database.

    folder: shared by the workers. Yield whether there is a template; the settings that this changes use it.
    """
    settings = connection.settings_dict
    is_sqlite = connection.vendor == "sqlite"
    template = folder / "template.sqlite3"  # on PostgreSQL an empty file, which says that there is a database
    name = f"komand_tests_{folder.name}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if exists := template.exists():
            settings["TEST"]["MIGRATE"] = False
            if is_sqlite:
                shutil.copy(template, settings["TEST"]["NAME"])
            else:
                settings["TEST"]["TEMPLATE"] = name
        yield exists
        if not exists and is_sqlite:
            with connection.cursor() as cursor:
                cursor.execute("VACUUM INTO %s", [str(template)])
        elif not exists:
            connection.close()
            with psycopg.connect(os.environ[on_postgres.VARIABLE], autocommit=True) as server:
                server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{settings["NAME"]}"')
            template.touch()
    connection.close()


def end_other_connections() -> None:
    """End what threads of tests have left open, which would keep PostgreSQL from dropping the database."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            others = "datname = current_database() AND pid != pg_backend_pid()"
            cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


def remove_template(folder: Path) -> None:
    """Delete what the workers share. Called by the process that has started them, after their end."""
    shutil.rmtree(folder, ignore_errors=True)
    if url := os.environ.get(on_postgres.VARIABLE):
        with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as server:
            server.execute(f'DROP DATABASE IF EXISTS "komand_tests_{folder.name}"')


@contextmanager
def static_files_read_once() -> Iterator[None]:
    """Read the static files once for all clients of this process; WhiteNoise reads them for each."""
    find = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, Any] = {}

    def add(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            find(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    WhiteNoiseMiddleware.add_files_from_finders = add
    try:
        yield
    finally:
        WhiteNoiseMiddleware.add_files_from_finders = find
