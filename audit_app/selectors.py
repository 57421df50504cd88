"""Reads of the audit log at a constant cost: time ranges use the time-ordered key, counts are capped."""

import re
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from audit_app.kernel.ids import FIRST_MOMENT, first_id_at
from audit_app.models import AuditEntry

MOST_COUNTED = 10_000
_SENDER = re.compile(r"sender:([^:/]+)(?:/([^:/]+))?:(.+)", re.DOTALL)


@dataclass(frozen=True)
class EntryFilter:
    """A filter of audit entries. Empty and None match all.

    actor: see `by_actor`.
    since: inclusive.
    until: exclusive; both aware.
    """

    action: str = ""
    actor: str = ""
    agent_id: str = ""
    session_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None


def list_entries(
    wanted: EntryFilter, *, limit: int = 50, offset: int = 0, oldest_first: bool = False
) -> tuple[AuditEntry, ...]:
    """Return the matching entries, newest first by default."""
    return tuple(matching(wanted).order_by("id" if oldest_first else "-id")[offset : offset + limit])


def count_entries(wanted: EntryFilter) -> int:
    """Return the number of matching entries, at most MOST_COUNTED."""
    return matching(wanted).order_by()[:MOST_COUNTED].count()


def matching(wanted: EntryFilter) -> QuerySet[AuditEntry]:
    """Return the matching entries as an unevaluated, unordered query."""
    given = {
        "action": wanted.action,
        "agent_id": wanted.agent_id,
        "session_id": wanted.session_id,
        "id__gte": first_id_at(max(wanted.since, FIRST_MOMENT)) if wanted.since else None,
        "id__lt": first_id_at(max(wanted.until, FIRST_MOMENT)) if wanted.until else None,
    }
    found = AuditEntry.objects.filter(**{field: value for field, value in given.items() if value})
    return found.filter(by_actor(wanted.actor)) if wanted.actor else found


def by_actor(actor: str) -> Q:
    """Return the condition for entries of an actor. A sender is found by both forms, with and without an account.

    `sender:Web/shop:42`: also what earlier releases have written as `sender:Web:42` in sessions of the account.
    `sender:Web:42`: also 42 at every account.
    """
    of_sender = _SENDER.fullmatch(actor)
    if of_sender is None:
        return Q(actor=actor)
    channel, account_id, sender_id = of_sender.groups()
    if account_id:
        former = Q(actor=f"sender:{channel}:{sender_id}", session_key__startswith=f"{channel}:{account_id}:")
        return Q(actor=actor) | former
    at_any = rf"^sender:{re.escape(channel)}/[^:]+:{re.escape(sender_id)}$"
    return Q(actor=actor) | Q(actor__regex=at_any)
