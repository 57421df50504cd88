"""The dialog of `manage.py channel add` in a terminal: asks for the settings, tests, and waits for a first message."""

import time
from collections.abc import Callable
from datetime import timedelta
from getpass import getpass
from typing import Any

from django.utils import timezone

from audit_app.kernel.errors import AppError
from sessions_app.channels import accounts, first_message
from sessions_app.channels.first_message import RoundTrip
from sessions_app.channels.inbound import pairing_codes
from sessions_app.models import ChannelAccount
from sessions_app.platforms.account_settings import Setting
from sessions_app.platforms.base import ChannelAdapter

_LONGEST_WAIT = timedelta(minutes=10)

Write = Callable[[str], object]
Ask = Callable[[str], str]


def ask_settings(
    adapter: type[ChannelAdapter], write: Write, ask: Ask = input, ask_secret: Ask = getpass
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Show the set-up guide, ask for what an account needs, and return its configuration and secrets."""
    write(adapter.setup_guide)
    config = {
        name: _ask_until_valid(name, setting, write, ask)
        for name, setting in adapter.config_fields.items()
        if setting.is_required
    }
    generated, secrets = adapter.make_secrets(), {}
    for name in adapter.required_secrets:
        if name not in generated:
            secrets[name] = _ask_until_valid(name, Setting(adapter.secret_fields[name]), write, ask_secret)
    return config, secrets


def _ask_until_valid(name: str, setting: Setting, write: Write, ask: Ask) -> Any:
    is_list = setting.kind in ("ids", "patterns")
    while True:
        value: Any = ask(f"{name} ({setting.help}{', separated by commas' if is_list else ''}): ").strip()
        value = [part.strip() for part in value.split(",") if part.strip()] if is_list else value
        problem = setting.problem(value) if value else "is required"
        if not problem:
            return value
        write(f"{name} {problem}.")


def try_out(account: ChannelAccount, write: Write, sleep: Callable[[float], None] = time.sleep) -> None:
    """Test the account, and wait for a first message and its answer. Ctrl-C ends the wait."""
    try:
        for line in accounts.try_out(account):
            write(line)
    except AppError as error:
        write(f"The test failed: {error.message}")
        return
    write("Write to the account now, for example: hello. Ctrl-C ends the wait.")
    since, shown = timezone.now(), ""
    while timezone.now() - since < _LONGEST_WAIT:
        found = first_message.find(account, since)
        if found.text != shown and found.state is not RoundTrip.NOTHING:
            write(f"{found.sender}: {found.line}\n{found.text}")
            if found.state is RoundTrip.REFUSED and account.access == "paired":
                write(f"Send this from that chat: /pair {pairing_codes.make_code(account)}")
        shown = found.text
        if found.is_over:
            return
        sleep(1.0)
    write("No answered message within ten minutes. The account stays; its page in the admin shows what arrives.")
