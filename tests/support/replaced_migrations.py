"""A command of manage.py that does not know the squashed migrations: `python -m tests.support.replaced_migrations …`.

It goes through the files that these replace, one after the other, as the releases that had only those.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from django.core.management import execute_from_command_line
from django.db.migrations.loader import MigrationLoader

from komand import empty_database


@contextmanager
def only_replaced_migrations() -> Iterator[None]:
    """Let this process see only the migrations that squashed ones replace, and those that none replaces.

    An empty database gets its tables by them, not at once.
    """
    load = MigrationLoader.load_disk

    def load_disk(loader: MigrationLoader) -> None:
        load(loader)
        loader.disk_migrations = {key: one for key, one in loader.disk_migrations.items() if not one.replaces}

    one_by_one = mock.patch.object(empty_database, "first_ones", return_value=[])
    with mock.patch.object(MigrationLoader, "load_disk", load_disk), one_by_one:
        yield


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
    with only_replaced_migrations():
        execute_from_command_line(sys.argv)
