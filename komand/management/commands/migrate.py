"""Django's `migrate`, which does not report changed help texts as changes without a migration."""

from django.core.management.commands import migrate

from komand.management.commands.makemigrations import Autodetector


class Command(migrate.Command):
    autodetector = Autodetector
