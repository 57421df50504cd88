"""Django's `migrate`, beside running processes, and without changed help texts as changes without a migration."""

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from komand.management.commands.makemigrations import Autodetector
from komand.migration_executor import PatientExecutor, only_migrator

# Django's command names its executor and has no way to set another.
migrate.MigrationExecutor = PatientExecutor  # type: ignore[attr-defined]


class Command(migrate.Command):
    autodetector = Autodetector

    def handle(self, *args: Any, **options: Any) -> None:
        with only_migrator(connections[options["database"]]):
            super().handle(*args, **options)
