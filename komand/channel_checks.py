"""Checks of the accounts of channels, for `doctor` and the page of next steps."""

from collections.abc import Iterator

from django.db.models import Q

from komand.findings import Finding
from sessions_app.channels import account_state, open_access
from sessions_app.channels.connections import claims, condition
from sessions_app.models import ChannelAccount


def check_exposure() -> Iterator[Finding]:
    """Yield what accounts that are open to everyone give to strangers."""
    mend = "admin → Channels, or manage.py channel add … --tools"
    for account, danger in open_access.list_dangers():
        yield Finding(f"channel {account}", False, danger, mend, "channels.exposed")


def check_channels() -> Iterator[Finding]:
    """Yield what is wrong with the accounts of channels, and with the connections that receive for them."""
    found = list(check_exposure())
    yield from found
    yield from check_accounts()
    for account in claims.list_listening():
        if state := condition.describe(account):
            yield Finding(f"connection {account}", state.is_ok, state.text, state.remedy)
    yield from _unreachable_accounts()
    if not found:
        yield Finding("channels", True, "no account gives strangers more than an operator has listed")


def _unreachable_accounts() -> Iterator[Finding]:
    for account in condition.list_unreachable():
        detail = "receives nothing: its platform sends to an https:// address, and KOMAND_PUBLIC_URL names none"
        mend = "set KOMAND_PUBLIC_URL and restart, or choose another way to receive if the channel has one"
        yield Finding(f"webhook {account}", False, detail, f"{mend}: docs/channels.md")


def check_accounts() -> Iterator[Finding]:
    """Yield the accounts that an error switched off, that have never sent anything but errors, or that cannot send."""
    test = "python manage.py channel test"
    for account in ChannelAccount.objects.filter(Q(is_enabled=False) | Q(last_sent_at=None)).exclude(last_error=""):
        state, then = ("it has sent nothing yet", "") if account.is_enabled else ("it is off", ", then enable it")
        mend = f"{test} {account.channel} {account.account_id}{then}; or delete it"
        yield Finding(f"channel {account}", False, f"{state}, with the error: {account.last_error}", mend)
    for account, number, error in account_state.list_stuck():
        detail = f"deliveries that wait after a failed attempt: {number}, the last one: {error}"
        yield Finding(f"sending {account}", False, detail, f"{test} {account.channel} {account.account_id}")
