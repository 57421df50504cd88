"""Django's `makemigrations`, which ignores help texts: no table depends on them."""

from typing import Any

from django.core.management.commands import makemigrations
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.models import Field


class Autodetector(MigrationAutodetector):
    """Compares fields without their help texts."""

    def deep_deconstruct(self, obj: Any) -> Any:
        deconstructed = super().deep_deconstruct(obj)
        if isinstance(obj, Field):
            deconstructed[-1].pop("help_text", None)
        return deconstructed


class Command(makemigrations.Command):
    autodetector = Autodetector
