"""Run as a program: migrate an empty database, and kill the process in each migration, after its statements.

Arguments: every how many migrations one is killed; `replaced` for those that the squashed ones replace, and the names
of apps and migrations at which an older installation stands (`audit_app:0002`), which then migrates like a new one.
Prints the migrations that were killed and the schema at the end.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext

import django
from django.core.management import call_command
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from tests.support.replaced_migrations import only_replaced_migrations
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


def pending() -> list[Migration]:
    """Return the migrations that a start would apply."""
    executor = MigrationExecutor(connection)
    return [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


def kill_in_each(step: int) -> None:
    """Kill a migrating process in each of these migrations, then let one migrate to the end."""
    graph = MigrationLoader(None).graph
    order = [key for leaf in graph.leaf_nodes() for key in graph.forwards_plan(leaf)]
    for app, name in list(dict.fromkeys(order))[::step] if step else []:
        status = in_child(killed_at(graph.nodes[app, name]))
        if os.WIFEXITED(status):  # it was applied before, as a dependency of another
            continue
        assert os.WTERMSIG(status) == signal.SIGKILL
        sys.stdout.write(f"killed {app}.{name}\n")
    call_command("migrate", verbosity=0)


def stop_at(targets: list[str]) -> None:
    """Migrate to these targets by the replaced migrations; then what is left has none of the squashed ones."""
    with only_replaced_migrations():
        for target in targets:
            call_command("migrate", *target.split(":"), verbosity=0)
    begun = {target.partition(":")[0] for target in targets}
    left = pending()
    assert left and not [one for one in left if one.replaces and one.app_label in begun]


def main() -> None:
    step, replaced, targets = int(sys.argv[1]), sys.argv[2:3] == ["replaced"], sys.argv[3:]
    django.setup()
    if targets:
        stop_at(targets)
    with only_replaced_migrations() if replaced and not targets else nullcontext():
        kill_in_each(step)
    assert not pending()  # also if only replaced ones are recorded
    with only_replaced_migrations():
        assert not pending()  # a release before the squashed ones works on it, too
    sys.stdout.write(json.dumps(read_schema()) + "\n")


if __name__ == "__main__":
    main()
