"""Run as a program: migrate an empty database, and kill the process in each migration, after its statements.

Arguments: every how many migrations one is killed. Prints the migrations that were killed and the schema at the end.
"""

import json
import os
import signal
import sys
from collections.abc import Callable

import django
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

_SCHEMA = {
    "sqlite": "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2",
    "postgresql": """
        SELECT 'column', table_name, column_name, data_type || is_nullable || coalesce(column_default, '')
        FROM information_schema.columns WHERE table_schema = 'public'
        UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        ORDER BY 1, 2, 3""",
}


def in_child(action: Callable[[], None]) -> int:
    """Run the action in a forked process. Return its wait status."""
    pid = os.fork()
    if pid == 0:
        action()
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def killed_at(app: str, name: str) -> Callable[[], None]:
    """Return an action that migrates and is killed before the migration is recorded."""
    record = MigrationRecorder.record_applied

    def kill(self: MigrationRecorder, applied_app: str, applied_name: str) -> None:
        if (applied_app, applied_name) == (app, name):
            os.kill(os.getpid(), signal.SIGKILL)
        record(self, applied_app, applied_name)

    def migrate() -> None:
        MigrationRecorder.record_applied = kill  # type: ignore[method-assign, assignment]
        call_command("migrate", verbosity=0)

    return migrate


def main() -> None:
    django.setup()
    graph = MigrationLoader(None).graph
    order = [key for leaf in graph.leaf_nodes() for key in graph.forwards_plan(leaf)]
    chosen = list(dict.fromkeys(order))[:: int(sys.argv[1])] if int(sys.argv[1]) else []
    for app, name in chosen:
        status = in_child(killed_at(app, name))
        if os.WIFEXITED(status):  # it was applied before, as a dependency of another
            continue
        assert os.WTERMSIG(status) == signal.SIGKILL
        sys.stdout.write(f"killed {app}.{name}\n")
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(_SCHEMA[connection.vendor])
        sys.stdout.write(json.dumps(cursor.fetchall(), default=str) + "\n")


if __name__ == "__main__":
    main()
