"""The condition of an account's connection and of the processes that it needs, in words for operators."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from audit_app.kernel import liveness
from sessions_app.channels.connections import claims
from sessions_app.models import ChannelAccount
from sessions_app.platforms.registry import channels

# Heartbeats come every 90 seconds at least, and are stored every 30.
_SILENT = timedelta(minutes=3)
_OPEN_SECONDS, _PAUSE_SECONDS = 10.0, 0.2
_START = "start a runs worker and the process sockets, as the same user; see docs/channels.md"


@dataclass(frozen=True)
class Condition:
    """The condition.

    is_ok: events arrive.
    text: a sentence.
    remedy: what to do, empty if nothing.
    """

    is_ok: bool
    text: str
    remedy: str = ""


def describe(account: ChannelAccount) -> Condition | None:
    """Return the condition of an account's connection, None if it receives by webhook."""
    if not claims.listens(account):
        return None
    row, now = claims.connection_of(account), timezone.now()
    if row is None:
        return Condition(False, "never opened", _START)
    if row.attention_at and claims.waits_for_operator(account):
        return Condition(False, f"needs attention since {_at(row.attention_at)}: {row.error}", "then test the account")
    is_held = row.holder is not None and any(process.id == row.holder for process in _alive())
    if is_held and row.connected_at and row.heartbeat_at and now - row.heartbeat_at < _SILENT:
        event = f"last event {_at(row.event_at)}" if row.event_at else "no event yet"
        text = f"connected since {_at(row.connected_at)}, last heartbeat {_at(row.heartbeat_at)}, {event}"
        return Condition(True, text)
    if not is_held or row.connected_at:
        seen = f", last heartbeat {_at(row.heartbeat_at)}" if row.heartbeat_at else ""
        return Condition(False, f"no process keeps it open{seen}", _START)
    problem = f", since {_at(row.error_at)}: {row.error}" if row.error and row.error_at else ""
    return Condition(False, f"not connected, trying again{problem}", "if it lasts, test the account")


def list_unreachable() -> list[ChannelAccount]:
    """Return the enabled accounts whose platform has no address for their webhook: they receive nothing."""
    if settings.KOMAND_PUBLIC_URL.startswith("https://"):
        return []
    accounts = ChannelAccount.objects.filter(is_enabled=True, channel__in=channels.names())
    posted = (account for account in accounts if channels.get(account.channel).needs_public_url)
    return [account for account in posted if not claims.listens(account)]


def find_missing_processes(account: ChannelAccount) -> Iterator[str]:
    """Yield a sentence for each kind of process that the account needs and that does not run."""
    running = {process.name for process in _alive()}
    if "runs" not in running:
        yield "No runs worker is running: nothing is answered or sent. Start Komand: manage.py up"
    if "web" not in running and not claims.listens(account):
        yield "No web process is running: its webhook cannot be reached. Start Komand: manage.py up"


def find_problems_after_test(account: ChannelAccount) -> Iterator[str]:
    """Yield what keeps messages of an account from being answered although the platform takes its settings.

    Waits for the connection, if there is a worker to open it.
    """
    account.refresh_from_db()
    if not account.is_enabled:
        yield f"The account is off. Enable it: manage.py channel enable {account.channel} {account.account_id}"
        return
    missing = [*find_missing_processes(account)]
    yield from missing
    found = describe(account) if missing else _wait_for_connection(account)
    if found and not found.is_ok:
        yield f"Its connection: {found.text}; {found.remedy}."


def _wait_for_connection(account: ChannelAccount) -> Condition | None:
    ends = time.monotonic() + _OPEN_SECONDS
    while (found := describe(account)) and not found.is_ok and time.monotonic() < ends:
        time.sleep(_PAUSE_SECONDS)
        account.refresh_from_db()
    return found


def _alive() -> list[liveness.ProcessView]:
    return [process for process in liveness.list_processes() if process.alive]


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
