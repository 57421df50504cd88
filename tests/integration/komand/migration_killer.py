"""Run as a program: migrate an empty database, and kill the process in each migration, after its statements.

Arguments: every how many migrations one is killed; `replaced` for those that the squashed ones replace. Prints the
migrations that were killed and the schema at the end.
"""

import json
import os
import signal
import sys
from collections.abc import Callable

import django
from django.core.management import call_command
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from tests.support.replaced_migrations import hide_squashed_migrations
from tests.support.schema import read_schema


def in_child(action: Callable[[], None]) -> int:
    """Run the action in a forked process. Return its wait status."""
    pid = os.fork()
    if pid == 0:
        action()
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def killed_at(migration: Migration) -> Callable[[], None]:
    """Return an action that migrates and is killed before the migration is recorded."""
    record = MigrationRecorder.record_applied
    names = {(migration.app_label, migration.name), *migration.replaces}

    def kill(self: MigrationRecorder, applied_app: str, applied_name: str) -> None:
        if (applied_app, applied_name) in names:
            os.kill(os.getpid(), signal.SIGKILL)
        record(self, applied_app, applied_name)

    def migrate() -> None:
        MigrationRecorder.record_applied = kill  # type: ignore[method-assign, assignment]
        call_command("migrate", verbosity=0)

    return migrate


def main() -> None:
    if sys.argv[2:] == ["replaced"]:
        hide_squashed_migrations()
    django.setup()
    graph = MigrationLoader(None).graph
    order = [key for leaf in graph.leaf_nodes() for key in graph.forwards_plan(leaf)]
    chosen = list(dict.fromkeys(order))[:: int(sys.argv[1])] if int(sys.argv[1]) else []
    for app, name in chosen:
        status = in_child(killed_at(graph.nodes[app, name]))
        if os.WIFEXITED(status):  # it was applied before, as a dependency of another
            continue
        assert os.WTERMSIG(status) == signal.SIGKILL
        sys.stdout.write(f"killed {app}.{name}\n")
    call_command("migrate", verbosity=0)
    sys.stdout.write(json.dumps(read_schema()) + "\n")


if __name__ == "__main__":
    main()
