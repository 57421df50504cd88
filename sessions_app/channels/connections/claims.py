"""The stored state of connections: one holder for each account, its cursor, and its condition. Guarded updates.

Each function owns its transaction.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from audit_app import services as audit
from audit_app.kernel.errors import AppError
from sessions_app import hot_queries
from sessions_app.channels import accounts
from sessions_app.models import ChannelAccount, ChannelConnection
from sessions_app.platforms.registry import channels


class ListeningAccounts:
    """The enabled accounts that receive over a connection, as one process knows them."""

    def __init__(self) -> None:
        self._known: dict[UUID, tuple[tuple[Any, ...], ChannelAccount]] = {}  # all that are enabled, with their version

    def read(self) -> list[ChannelAccount]:
        """Return the accounts, each with its agent and its connection, if any. Loads those that have changed.

        Includes those with unusable settings or secrets: opening their connection reports the reason.
        """
        versions = {row[0]: row for row in hot_queries.LIST_ACCOUNT_VERSIONS.rows()}
        known = {key: found for key, found in self._known.items() if versions.get(key) == found[0]}
        if changed := versions.keys() - known.keys():
            rows = ChannelAccount.objects.select_related("agent", "connection").filter(pk__in=changed)
            known |= {row.pk: (versions[row.pk], row) for row in rows}
        self._known = known
        return [account for _, account in known.values() if listens(account)]


def list_listening() -> list[ChannelAccount]:
    """Return the accounts of `ListeningAccounts`, all loaded."""
    return ListeningAccounts().read()


def listens(account: ChannelAccount) -> bool:
    """Return whether the account receives over a connection. True if its settings are unusable."""
    if account.channel not in channels.names() or not channels.get(account.channel).can_listen:
        return False
    try:
        return accounts.pure.get(account).listens
    except AppError:
        return True


def connection_of(account: ChannelAccount) -> ChannelConnection | None:
    """Return the state of an account's connection, None if there never was one."""
    found: ChannelConnection | None = getattr(account, "connection", None)
    return found


def waits_for_operator(account: ChannelAccount) -> bool:
    """Return whether the account was not changed since its connection began to need attention."""
    row = connection_of(account)
    return row is not None and row.attention_at is not None and account.updated_at <= row.attention_at


def claim(account: ChannelAccount, holder: UUID, dead: Collection[UUID]) -> ChannelConnection | None:
    """Make this process the holder, unless a process that is not among `dead` is. Returns None if so."""
    if connection_of(account) is None:
        ChannelConnection.objects.bulk_create([ChannelConnection(account=account)], ignore_conflicts=True)
    free = _rows(account).filter(Q(holder=None) | Q(holder__in=dead))
    if not free.update(holder=holder, connected_at=None, attention_at=None):
        return None
    return _rows(account).get()


def release(account: ChannelAccount, holder: UUID) -> None:
    """Let another process hold the connection. Idempotent; nothing happens to a connection of another holder."""
    _rows(account).filter(holder=holder).update(holder=None, connected_at=None)


def advance(account: ChannelAccount, holder: UUID, cursor: str, *, has_events: bool) -> bool:
    """Store the cursor, and the time if there were events. Returns False if another process is the holder."""
    now = timezone.now()
    times = {"event_at": now} if has_events else {}
    if not _rows(account).filter(holder=holder).update(cursor=cursor, **times):
        return False
    if has_events:
        ChannelAccount.objects.filter(pk=account.pk).update(last_inbound_at=now)
    return True


def note_heartbeat(account: ChannelAccount, holder: UUID, *, is_first: bool) -> None:
    """Store the time of a heartbeat. is_first: the connection has just been opened."""
    now = timezone.now()
    opened = {"connected_at": now, "error": "", "error_at": None} if is_first else {}
    _rows(account).filter(holder=holder).update(heartbeat_at=now, **opened)


def note_lost(account: ChannelAccount, holder: UUID, error: str) -> None:
    """Store why the connection was lost or could not be opened."""
    _rows(account).filter(holder=holder).update(connected_at=None, error=error[:500], error_at=timezone.now())


def note_attention(account: ChannelAccount, holder: UUID, error: str) -> None:
    """Store what an operator has to do, and release the connection: nothing is tried until they have."""
    now = timezone.now()
    values = {"connected_at": None, "error": error[:500], "error_at": now, "attention_at": now}
    with transaction.atomic():
        if _rows(account).filter(holder=holder).update(holder=None, **values):
            audit.record("ChannelAccountNeedsAttention", details={"account": str(account), "why": error[:500]})


def _rows(account: ChannelAccount) -> QuerySet[ChannelConnection]:
    return ChannelConnection.objects.filter(account_id=account.pk)
