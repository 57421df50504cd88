"""The databases of the measured installations: a SQLite file each, or a database each on a temporary PostgreSQL server.

The benchmark reads the database directly, so that its reads put no load on the measured processes.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from tests.support.postgres import run_postgres

KINDS = ("sqlite", "postgres")
# Durable commits, as in production. (The tests turn them off.)
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "512MB"}


class Database(ABC):
    """The database of one installation. environment: its variables that select this database."""

    environment: dict[str, str]

    @abstractmethod
    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query with `?` as placeholder."""

    @abstractmethod
    def unix(self, column: str) -> str:
        """Return an SQL expression: the column's time in seconds since 1970."""

    @abstractmethod
    def key(self, text: str) -> Any:
        """Return an id in the representation of the database."""

    def number(self, query: str, values: Sequence[Any] = ()) -> float:
        return float(self.read(query, values)[0][0] or 0)


class SqliteDatabase(Database):
    def __init__(self, data_dir: Path) -> None:
        self.environment = {}
        self._uri = f"file:{data_dir / 'komand.sqlite3'}?mode=ro"

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._uri, uri=True)) as database:
            return database.execute(query, values).fetchall()

    def unix(self, column: str) -> str:
        return f"((julianday({column}) - 2440587.5) * 86400.0)"

    def key(self, text: str) -> Any:
        return UUID(text).hex


class PostgresDatabase(Database):
    def __init__(self, server: str) -> None:
        name = f"bench_{uuid4().hex[:12]}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        self._url = f"{server.rpartition('/')[0]}/{name}"
        self.environment = {"DATABASE_URL": self._url}
        self._connection: psycopg.Connection[Any] | None = None

    def read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = psycopg.connect(self._url, autocommit=True)
        return self._connection.execute(query.replace("?", "%s"), values).fetchall()

    def unix(self, column: str) -> str:
        return f"extract(epoch FROM {column})"

    def key(self, text: str) -> Any:
        return UUID(text)


class Databases:
    """A factory of databases, one for each installation."""

    def __init__(self, server: str) -> None:
        """server: the URL of a PostgreSQL server; empty for SQLite."""
        self._server = server

    def make(self, data_dir: Path) -> Database:
        return PostgresDatabase(self._server) if self._server else SqliteDatabase(data_dir)


@contextmanager
def open_databases(kind: str) -> Iterator[Databases]:
    with run_postgres(**_DURABLE) if kind == "postgres" else nullcontext("") as server:
        yield Databases(server)
