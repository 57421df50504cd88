"""The base class of management commands."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from audit_app.kernel.errors import AppError


class AppCommand(BaseCommand):
    """A command that an AppError ends with its message. The action `x` is carried out by the method `_x`."""

    def execute(self, *args: Any, **options: Any) -> Any:
        try:
            return super().execute(*args, **options)
        except AppError as error:
            raise CommandError(f"{error.message}{self.hint(error)}") from None

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options)

    def hint(self, error: AppError) -> str:
        """Return what follows the message of an error."""
        return ""
