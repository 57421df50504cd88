"""Check that the database has every migration of this code. Newer migrations are fine: they keep this code working."""

import logging
import sys

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error as DatabaseError

logger = logging.getLogger(__name__)

COMMAND = "python manage.py prepare"
_fits = False


def count_missing() -> int:
    """Return how many migrations are not applied. Cached once it is none. Raises the database's errors."""
    global _fits
    if _fits:
        return 0
    executor = MigrationExecutor(connection)
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    _fits = not missing
    return missing


def describe(missing: int) -> str:
    return f"{missing} {'migration is' if missing == 1 else 'migrations are'} not applied; run: {COMMAND}"


def find_problem() -> str:
    """Return why this code cannot work on the schema, with the command to run; empty if it can.

    Empty also while the database is away: `/health/ready` looks again.
    """
    try:
        missing = count_missing()
    except DatabaseError as error:
        logger.warning("the schema of the database cannot be checked yet: %s", str(error).strip())
        return ""
    return f"the database does not fit this release: {describe(missing)}" if missing else ""


def require() -> None:
    """Exit with the command to run if migrations are missing. Closes its connection: a worker forks afterwards."""
    problem = find_problem()
    connection.close()
    if problem:
        sys.exit(f"komand: {problem}")
