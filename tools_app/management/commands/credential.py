"""`manage.py credential`: sets, shares, lists and deletes credentials.

A value is read from a file or from the input, never from an argument, which other users could see in the process list.
"""

import getpass
import sys
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from audit_app.management.app_command import AppCommand
from tools_app.secrets import credentials


class Command(AppCommand):
    help = "Store secrets that skills, servers, providers and channels name as {{credential:NAME}}."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        put = actions.add_parser("set", help="store a value, read from the input")
        put.add_argument("name")
        put.add_argument("--file", metavar="FILE", help="read the value from this file instead")
        put.add_argument(
            "--host",
            action="append",
            metavar="HOST",
            help="host that calls may send it to, such as api.example.com; repeat for several (default: as stored)",
        )
        share = actions.add_parser("share", help="let agents use a credential in runs of other users")
        share.add_argument("name")
        share.add_argument(
            "--agent", action="append", default=[], metavar="ID", help="agent; repeat for several (none: stop sharing)"
        )
        delete = actions.add_parser("delete", help="delete a credential")
        delete.add_argument("name")
        listing = actions.add_parser("list", help="list credentials with the times of their last change and use")
        for one in (put, share, delete, listing):
            one.add_argument("--user", default="", metavar="NAME", help="owner (default: the installation)")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['action']}")(options, _owner_id(options["user"]))

    def _set(self, options: dict[str, Any], owner_id: int | None) -> None:
        value = _read_value(options["file"])
        _, is_new = credentials.store_credential(options["name"], value, owner_id=owner_id, hosts=options["host"])
        self.stdout.write(f"The credential {options['name']} was {'stored' if is_new else 'replaced'}.")

    def _share(self, options: dict[str, Any], owner_id: int | None) -> None:
        credentials.share_credential(options["name"], options["agent"], owner_id=owner_id)
        shared = ", ".join(options["agent"]) or "no agent"
        self.stdout.write(f"The credential {options['name']} is shared with {shared}.")

    def _delete(self, options: dict[str, Any], owner_id: int | None) -> None:
        credentials.delete_credential(options["name"], owner_id=owner_id)
        self.stdout.write(f"The credential {options['name']} was deleted.")

    def _list(self, options: dict[str, Any], owner_id: int | None) -> None:
        for row in credentials.list_credentials(owner_id):
            used = f"last used {row.last_used_at:%Y-%m-%d %H:%M}" if row.last_used_at else "never used"
            bound = f"hosts {', '.join(row.hosts) or 'none'}  agents {', '.join(row.agents) or 'none'}"
            self.stdout.write(f"{row.name}  set {row.updated_at:%Y-%m-%d %H:%M}  {used}  {bound}")


def _owner_id(name: str) -> int | None:
    if not name:
        return None
    user = User.objects.filter(username=name).first() or User.objects.filter(email__iexact=name).first()
    if user is None:
        raise CommandError(f"There is no user {name!r}.")
    return int(user.pk)


def _read_value(file: str | None) -> str:
    if file:
        try:
            return Path(file).read_text().strip()
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    return getpass.getpass("Value: ") if sys.stdin.isatty() else sys.stdin.read().strip()
