"""The dialog of `manage.py channel add` in a terminal: asks for the settings, tests, and waits for a first message."""

import re
import time
from collections.abc import Callable
from datetime import timedelta
from getpass import getpass
from typing import Any, TypeVar

from django.utils import timezone

from audit_app.kernel.errors import AppError, InvalidInput
from sessions_app.channels import accounts, first_message, guides
from sessions_app.channels.connections import condition
from sessions_app.channels.first_message import FirstMessage, RoundTrip
from sessions_app.channels.inbound import pairing_codes
from sessions_app.models import ChannelAccount
from sessions_app.platforms.account_settings import Setting
from sessions_app.platforms.registry import channels

_LONGEST_WAIT = timedelta(minutes=10)

T = TypeVar("T")
Write = Callable[[str], object]
Ask = Callable[[str], str]


class Dialog:
    """The questions about one account, and the answers so far."""

    def __init__(
        self, channel: str, account_id: str, write: Write, ask: Ask = input, ask_secret: Ask = getpass
    ) -> None:
        self._channel, self._account_id = channel, account_id
        self._adapter = channels.get(channel)
        self._write, self._ask, self._ask_secret = write, ask, ask_secret
        self._answered: set[str] = {*self._adapter.make_secrets()}
        self.config: dict[str, Any] = {}
        self.secrets: dict[str, str] = {}

    def run(self, store: Callable[[dict[str, Any], dict[str, str]], T]) -> T:
        """Show the guide, ask for what the account needs, and return what `store` returns.

        If `store` refuses a setting, the answers are kept and only that one is asked for again.
        """
        self._write(guides.guide_of(self._channel, self._account_id, self.config)[0])
        while True:
            while (name := self._next()) is not None:
                self._ask_for(name)
            try:
                return store(self.config, self.secrets)
            except InvalidInput as error:
                if not self._forget_named(error):
                    raise
                self._write(error.message)

    def _next(self) -> str | None:
        return next((name for name in self._asks() if name not in self._answered), None)

    def _asks(self) -> dict[str, str | None]:
        given = accounts.settings_of(self._channel, self._account_id, self.config, self.secrets)
        return self._adapter.asks(given)

    def _forget_named(self, error: InvalidInput) -> bool:
        """Have the settings that the error names asked for again. Returns False if it names none."""
        named = {name for name in self._asks() if re.search(rf"\b{name}\b", error.message)}
        self._answered -= named
        return error.code == "bad_account" and bool(named)

    def _ask_for(self, name: str) -> None:
        """Ask until the answer is valid. An empty one means the default, or what was answered before."""
        setting, default = self._adapter.config_fields.get(name), self._asks()[name]
        is_secret = setting is None
        setting = setting or Setting(self._adapter.secret_fields[name])
        earlier = "" if is_secret else _shown(self.config.get(name, ""))
        text = _prompt(name, setting, earlier or default, is_optional=default == "")
        while True:
            typed = (self._ask_secret if is_secret else self._ask)(text).strip() or earlier
            value = setting.parse(typed)
            problem = setting.problem(value) if typed else "is required" if default is None else ""
            if not problem:
                break
            self._write(f"{name} {problem}.")
        self._answered.add(name)
        given: dict[str, Any] = self.secrets if is_secret else self.config
        given.update({name: value} if typed else {})


def _prompt(name: str, setting: Setting, suggested: str | None, *, is_optional: bool) -> str:
    parts = [setting.help]
    if setting.kind in ("ids", "agents", "patterns"):
        parts.append("separated by commas")
    if is_optional:
        parts.append("may stay empty")
    return f"{name} ({', '.join(parts)}){f' [{suggested}]' if suggested else ''}: "


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def try_out(
    account: ChannelAccount, write: Write, sleep: Callable[[float], None] = time.sleep, ask: Ask = input
) -> None:
    """Test the account, and wait for a first message and its answer. Ctrl-C ends the wait."""
    if after := guides.guide_of(account.channel, account.account_id, account.config)[1].strip():
        write(after)
    if not _test(account, write, ask):
        return
    write("Write to the account now, for example: hello. Ctrl-C ends the wait.")
    since, shown = timezone.now(), ""
    while timezone.now() - since < _LONGEST_WAIT:
        found = first_message.find(account, since)
        if found.text != shown and found.state is not RoundTrip.NOTHING:
            write(f"{found.sender}: {found.line}\n{found.text}")
            _help(account, found, write, ask)
        shown = found.text
        if found.is_over:
            return
        sleep(1.0)
    write("No answered message within ten minutes. The account stays; its page in the admin shows what arrives.")


def _test(account: ChannelAccount, write: Write, ask: Ask) -> bool:
    """Test the account, and store what it offers if the operator agrees. Returns False if the test failed."""
    try:
        checked = accounts.try_out(account)
    except AppError as error:
        write(f"The test failed: {error.message}")
        write(f"The account stays. Try again: manage.py channel test {account.channel} {account.account_id}")
        return False
    for line in checked.lines:
        write(line)
    for name, value in checked.offered.items():
        if ask(f"Set {name} to {value}? [Y/n] ").strip().lower() in ("", "y", "yes"):
            account.refresh_from_db()
            accounts.change_account(account, config={**account.config, name: value})
    for problem in condition.find_problems_after_test(account):
        write(f"Warning: {problem}")
    return True


def _help(account: ChannelAccount, found: FirstMessage, write: Write, ask: Ask) -> None:
    """Offer what the sender of a refused message lacks."""
    if found.reason == "not_paired":
        write(f"Send this from that chat: /pair {pairing_codes.make_code(account)}")
    elif found.reason == "sender_not_verified":
        _test(account, write, ask)
