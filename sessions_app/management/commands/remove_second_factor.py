"""`manage.py remove_second_factor`: removes the authenticator app of a user who has lost it."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from sessions_app.identity import second_factor


class Command(BaseCommand):
    help = "Remove the second factor and the recovery codes of a user."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", required=True, metavar="NAME", help="user name")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        if not second_factor.is_enrolled(user):
            raise CommandError(f"{user} has no second factor.")
        second_factor.remove(user, actor="system")
        self.stdout.write(f"Removed. {user} logs in with the password alone until a new app is set up.")
