"""The condition of an account's connection, in words for operators."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from sessions_app.channels.connections import claims
from sessions_app.models import ChannelAccount

# Heartbeats come every 90 seconds at least, and are stored every 30.
_SILENT = timedelta(minutes=3)
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
    if row.connected_at and row.heartbeat_at and now - row.heartbeat_at < _SILENT:
        event = f"last event {_at(row.event_at)}" if row.event_at else "no event yet"
        text = f"connected since {_at(row.connected_at)}, last heartbeat {_at(row.heartbeat_at)}, {event}"
        return Condition(True, text)
    if row.holder is None or row.connected_at:
        seen = f", last heartbeat {_at(row.heartbeat_at)}" if row.heartbeat_at else ""
        return Condition(False, f"no process keeps it open{seen}", _START)
    problem = f", since {_at(row.error_at)}: {row.error}" if row.error and row.error_at else ""
    return Condition(False, f"not connected, trying again{problem}", "if it lasts, test the account")


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
