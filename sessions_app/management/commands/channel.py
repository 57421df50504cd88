"""Sets channels up from the command line: accounts are added, listed, tried and switched; senders are paired."""

from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit_app.kernel.errors import AppError
from sessions_app import accounts, pairing
from sessions_app.channels.base import Checked
from sessions_app.channels.registry import channels
from sessions_app.models import ChannelAccount


class Command(BaseCommand):
    help = "Set up channels. What each one needs is in docs/channels.md."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = actions.add_parser("add", help="add an account, or change the one of that name")
        _name(add)
        add.add_argument("--config", metavar="FILE", help="JSON object of its configuration")
        add.add_argument("--secrets", metavar="FILE", help="JSON object of its secrets; only what it names is replaced")
        add.add_argument("--agent", default="", metavar="ID", help="answers there (default: the default agent)")
        add.add_argument("--access", choices=[name for name, _ in ChannelAccount.ACCESS], help="default: paired")
        add.add_argument("--allow", action="append", default=[], metavar="SENDER", help="for --access allow_list")
        actions.add_parser("list", help="list the accounts")
        for action, what in _ON_ONE.items():
            _name(actions.add_parser(action, help=what))

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['action']}")(options)
        except AppError as error:
            raise CommandError(error.message) from None

    def _add(self, options: dict[str, Any]) -> None:
        config, secrets = _read(options["config"], "The configuration"), _read(options["secrets"], "The secrets")
        channel, name = options["channel"], options["account_id"]
        known = ChannelAccount.objects.filter(channel=channel, account_id=name).first()
        if known is not None:
            accounts.change_account(known, config=config if options["config"] else None, secrets=secrets)
            self.stdout.write(f"{known} was changed. Access and agent are changed in the admin.")
            return
        account, made = accounts.add_account(
            channel, name, config=config, secrets=secrets, agent_id=options["agent"],
            access=options["access"] or ("allow_list" if options["allow"] else "paired"),
            allowed_senders=options["allow"],
        )  # fmt: skip
        self.stdout.write(f"{account} was added. Its webhook: {accounts.webhook_url(channel, name)}")
        for secret, value in made.items():
            self.stdout.write(f"{secret}, made now and not shown again: {value}")
        self.stdout.write(f"Next: manage.py channel test {channel} {name}")

    def _list(self, options: dict[str, Any]) -> None:
        for account in ChannelAccount.objects.select_related("agent"):
            state = "on" if account.is_enabled else "off"
            agent = account.agent.agent_id if account.agent else "default"
            error = f"  last error: {account.last_error}" if account.last_error else ""
            self.stdout.write(f"{account}  {state}  {account.access}  agent {agent}{error}")
        self.stdout.write(f"Channels: {', '.join(channels.names())}.")

    def _test(self, options: dict[str, Any]) -> None:
        account = accounts.get_account(options["channel"], options["account_id"])
        checked = _try(account)
        if any(account.config.get(name) != value for name, value in checked.learned.items()):
            accounts.change_account(account, config={**account.config, **checked.learned})
        for line in checked.lines:
            self.stdout.write(line)

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
        code = pairing.make_code(account)
        self.stdout.write(f"/pair {code}")
        self.stdout.write(f"The sender writes this to {account}; it works once, for {pairing.MINUTES} minutes.")


_ON_ONE = {
    "test": "try an account against its platform, and register its webhook there",
    "disable": "take an account out of use",
    "enable": "take it into use again",
    "pair": "make a one-time code for a new sender",
}


def _name(parser: CommandParser) -> None:
    parser.add_argument("channel", help="telegram, webhook, …")
    parser.add_argument("account_id", nargs="?", default="default", help="your name for it (default: default)")


def _read(path: str | None, noun: str) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return accounts.checked_json_object(Path(path).read_text(), noun)
    except OSError as error:
        raise CommandError(f"{noun} cannot be read: {error.strerror}") from None


@async_to_sync
async def _try(account: ChannelAccount) -> Checked:
    adapter = accounts.make_adapter(account)
    try:
        return await adapter.check()
    finally:
        await adapter.aclose()
