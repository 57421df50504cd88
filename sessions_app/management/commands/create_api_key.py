"""`manage.py create_api_key`: creates an API key and prints only the key, for use in scripts."""

from datetime import datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from audit_app.management.app_command import AppCommand
from sessions_app.identity import scopes
from sessions_app.identity.api_keys import NEVER, create_api_key


class Command(AppCommand):
    help = "Create an API key and print it on standard output. It is not shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", required=True, metavar="NAME", help="user name of its owner")
        parser.add_argument("--name", required=True, metavar="TEXT", help="purpose of the key")
        meanings = "; ".join(f"{scope}: {meaning}" for scope, meaning in scopes.described().items())
        known = f"default: {scopes.ALL}; may be repeated. {meanings}; agent:<id>: only this agent"
        parser.add_argument("--scope", action="append", metavar="SCOPE", help=known)
        default = settings.KOMAND_API_KEY_DAYS or NEVER
        parser.add_argument(
            "--expires-days", metavar="N", help=f'days until it expires, or "{NEVER}" (default: {default})'
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user {options['user']!r}.")
        wanted = options["scope"] or [scopes.ALL]
        expires_at = _expiry(options["expires_days"])
        made = create_api_key(user, options["name"], scopes=wanted, expires_at=expires_at)
        self.stdout.write(made.key)


def _expiry(days: str | None) -> datetime | Literal["never"] | None:
    if days is None or days == NEVER:
        return days
    if not days.isdecimal() or not 0 < int(days) <= 3650:
        raise CommandError(f'--expires-days takes a number from 1 to 3650, or "{NEVER}".')
    return timezone.now() + timedelta(days=int(days))
