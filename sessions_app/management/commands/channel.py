"""`manage.py channel`: adds, lists, tests and disables channel accounts, and pairs senders."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from audit_app.kernel.errors import AppError
from audit_app.management.app_command import AppCommand
from sessions_app.channels import accounts, open_access
from sessions_app.channels.connections import claims, condition
from sessions_app.channels.inbound import pairing_codes
from sessions_app.management import channel_dialog
from sessions_app.models import ChannelAccount
from sessions_app.platforms.registry import channels, own_senders

T = TypeVar("T")


class Command(AppCommand):
    help = "Set up channels. docs/channels.md lists the settings of each."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = actions.add_parser(
            "add", help="add an account, or change an existing one; without files, ask for the settings"
        )
        _name(add)
        add.add_argument("--config", metavar="FILE", help="JSON object of its configuration")
        add.add_argument("--secrets", metavar="FILE", help="JSON object of its secrets; replaces only the named ones")
        add.add_argument("--agent", default="", metavar="ID", help="agent of new sessions (default: the default agent)")
        add.add_argument(
            "--access",
            choices=[name for name, _ in ChannelAccount.ACCESS],
            help="senders who may use it (default: paired)",
        )
        add.add_argument(
            "--allow",
            action="append",
            default=[],
            metavar="SENDER",
            help="sender for --access allow_list; repeat for several",
        )
        add.add_argument(
            "--tools",
            default="",
            metavar="NAMES",
            help="tools that runs for its senders may use, separated by commas, or none; required for --access open",
        )
        add.add_argument("--messages-per-day", type=int, metavar="N", help="limit of messages per sender and day")
        actions.add_parser("list", help="list the accounts")
        for action, what in _ON_ONE.items():
            on_one = actions.add_parser(action, help=what)
            _name(on_one)
            if action == "pair":
                on_one.add_argument(
                    "--user", default="", help="user of the sender; an operator can decide approvals in that chat"
                )

    def hint(self, error: AppError) -> str:
        return " docs/channels.md lists what an account needs." if error.code == "bad_account" else ""

    def _add(self, options: dict[str, Any]) -> None:
        channel, name = options["channel"], options["account_id"]
        config, secrets, fields = _read(options["config"]), _read(options["secrets"]), _fields(options)
        known = ChannelAccount.objects.filter(channel=channel, account_id=name).first()
        asks = known is None and not (options["config"] or options["secrets"]) and sys.stdin.isatty()
        if known is not None:
            given = config if options["config"] else None
            accounts.change_account(known, config=given, secrets=secrets, agent_id=options["agent"], **fields)
            self.stdout.write(f"{known} was changed.")
            account = known
        else:

            def store(config: dict[str, Any], secrets: dict[str, str]) -> tuple[ChannelAccount, Mapping[str, str]]:
                given = {"config": config, "secrets": secrets, "agent_id": options["agent"]}
                return accounts.add_account(channel, name, **given, **fields)

            account, made = self._ask(channel, name, store) if asks else store(config, secrets)
            self.stdout.write(f"{account} was added. {_way_in(account)}")
            for secret, value in made.items():
                self.stdout.write(f"{secret} ({channels.get(channel).secret_fields[secret]}), shown once: {value}")
        for danger in open_access.dangers(account):
            self.stdout.write(self.style.WARNING(f"Warning: {danger}"))
        if asks:
            with suppress(EOFError, KeyboardInterrupt):
                channel_dialog.try_out(account, self.stdout.write)
        else:
            self.stdout.write(f"Next: manage.py channel test {channel} {name}")

    def _ask(self, channel: str, name: str, store: Callable[..., T]) -> T:
        try:
            return channel_dialog.Dialog(channel, name, self.stdout.write).run(store)
        except (EOFError, KeyboardInterrupt):
            raise CommandError("Nothing was added.") from None

    def _list(self, options: dict[str, Any]) -> None:
        for account in ChannelAccount.objects.exclude(channel__in=own_senders.names()).select_related("agent"):
            state = "on" if account.is_enabled else "off"
            agent = account.agent.agent_id if account.agent else "default"
            self.stdout.write(f"{account}  {state}  {account.access}  agent {agent}")
            self.stdout.write(f"  last message in {_at(account.last_inbound_at)}, out {_at(account.last_sent_at)}")
            if account.is_enabled and (found := condition.describe(account)):
                self.stdout.write(f"  connection: {found.text}")
            for problem in condition.find_missing_processes(account) if account.is_enabled else ():
                self.stdout.write(f"  warning: {problem}")
            for danger in open_access.dangers(account):
                self.stdout.write(f"  warning: {danger}")
            if account.last_error:
                self.stdout.write(f"  last error {_at(account.last_error_at)}: {account.last_error}")
        self.stdout.write(f"Channels: {', '.join(channels.names())}.")

    def _test(self, options: dict[str, Any]) -> None:
        account = accounts.get_account(options["channel"], options["account_id"])
        checked = accounts.try_out(account)
        for line in checked.lines:
            self.stdout.write(line)
        for problem in condition.find_problems_after_test(account):
            self.stdout.write(self.style.WARNING(f"Warning: {problem}"))
        for name, value in checked.offered.items():
            self.stdout.write(f"If that is right, set {name} to {value} on the page of the account in the admin.")

    def _disable(self, options: dict[str, Any]) -> None:
        self._switch(options, False)

    def _enable(self, options: dict[str, Any]) -> None:
        self._switch(options, True)

    def _switch(self, options: dict[str, Any], is_enabled: bool) -> None:
        account = accounts.get_account(options["channel"], options["account_id"])
        accounts.set_enabled(account, is_enabled)
        self.stdout.write(f"{account} is {'on' if is_enabled else 'off'}.")

    def _pair(self, options: dict[str, Any]) -> None:
        account = accounts.get_account(options["channel"], options["account_id"])
        user = User.objects.filter(username=options["user"]).first()
        if options["user"] and user is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        code = pairing_codes.make_code(account, user)
        self.stdout.write(f"/pair {code}")
        self.stdout.write(
            f"The sender has to send this to {account}. It works once, for {pairing_codes.MINUTES} minutes."
        )


_ON_ONE = {
    "test": "test an account against its platform, and register its webhook",
    "disable": "disable an account",
    "enable": "enable it again",
    "pair": "create a one-time code for a new sender",
}


def _name(parser: CommandParser) -> None:
    parser.add_argument("channel", help="telegram, webhook, …")
    parser.add_argument("account_id", nargs="?", default="default", help="name of the account (default: default)")


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an account that the options give."""
    given = {
        "access": options["access"] or ("allow_list" if options["allow"] else None),
        "allowed_senders": options["allow"] or None,
        "tools": open_access.parse_tools(options["tools"]),
        "messages_per_day": options["messages_per_day"],
    }
    return {name: value for name, value in given.items() if value is not None}


def _read(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return accounts.checked_json_object(Path(path).read_text(), path)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not a UTF-8 text file.") from None


def _way_in(account: ChannelAccount) -> str:
    """Return how messages reach the account, for an operator."""
    if claims.listens(account):
        return "It receives over a connection of its own."
    if settings.KOMAND_PUBLIC_URL:
        return f"Its webhook: {accounts.webhook_url(account.channel, account.account_id)}"
    return (
        "Set KOMAND_PUBLIC_URL to the address under which the platform reaches this installation: it receives below "
        f"that address, at {accounts.webhook_url(account.channel, account.account_id)}"
    )


def _at(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "never"
