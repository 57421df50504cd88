"""`manage.py create_api_key`: creates an API key and prints only the key, for use in scripts."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from audit_app.kernel.errors import AppError
from sessions_app.identity.api_keys import create_api_key
from sessions_app.identity.principal import SCOPES


class Command(BaseCommand):
    help = "Create an API key and print it on standard output. It is not shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", required=True, metavar="NAME", help="user name of its owner")
        parser.add_argument("--name", required=True, metavar="TEXT", help="purpose of the key")
        scopes = "; ".join(f"{scope}: {meaning}" for scope, meaning in SCOPES.items())
        parser.add_argument("--scope", action="append", default=[], choices=sorted(SCOPES), help=scopes)
        parser.add_argument("--expires-days", type=int, metavar="N", help="let it expire after N days (default: never)")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user {options['user']!r}.")
        days = options["expires_days"]
        expires_at = None if days is None else timezone.now() + timedelta(days=days)
        try:
            made = create_api_key(user, options["name"], scopes=options["scope"], expires_at=expires_at)
        except AppError as error:
            raise CommandError(error.message) from None
        self.stdout.write(made.key)
