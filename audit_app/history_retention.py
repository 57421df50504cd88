"""How long the timeline and the audit log are kept: for ever, unless a setting says otherwise."""

from collections.abc import Iterator
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from audit_app import retention
from audit_app.kernel.ids import first_id_at
from audit_app.models import AuditEntry, Event, TimelineHead

# Facts that are a message to whoever reads the session.
_MESSAGES = ("message.received", "message.completed")
_SESSIONS_AT_ONCE = 200


class OldTimelines(retention.Rule):
    """Events older than KOMAND_TIMELINE_DAYS, except those of a session's newest KOMAND_TIMELINE_MESSAGES messages.

    Sessions are gone through in the order of their ids; where it stopped is remembered by the process alone.
    """

    name = "events of the timeline"
    says = "KOMAND_TIMELINE_DAYS, but never a session's newest KOMAND_TIMELINE_MESSAGES"

    def __init__(self) -> None:
        self._after: UUID | None = None

    def prune(self, limit: int) -> int:
        """Goes on while there are sessions left to look at, so it may say `limit` although fewer rows went."""
        if not settings.KOMAND_TIMELINE_DAYS:
            return 0
        session_ids = list(self._heads()[:_SESSIONS_AT_ONCE])
        self._after = session_ids[-1] if len(session_ids) == _SESSIONS_AT_ONCE else None
        gone = 0
        for session_id in session_ids:
            ids = list(_old_events(session_id, limit - gone))
            with transaction.atomic():
                Event.objects.filter(pk__in=ids).delete()
            gone += len(ids)
            if gone >= limit:
                self._after = UUID(int=session_id.int - 1)  # there may be more of it
                return limit
        return limit if self._after else gone

    def count(self) -> int:
        if not settings.KOMAND_TIMELINE_DAYS:
            return 0
        everything = Event.objects.count()
        return sum(len(list(_old_events(session_id, everything))) for session_id in self._heads().iterator())

    def _heads(self) -> "QuerySet[TimelineHead, UUID]":
        heads = TimelineHead.objects.filter(seq__gt=settings.KOMAND_TIMELINE_MESSAGES).order_by("pk")
        return (heads.filter(pk__gt=self._after) if self._after else heads).values_list("pk", flat=True)


def _old_events(session_id: UUID, limit: int) -> Iterator[int]:
    """The first events of a session, as far as they may go."""
    before = int(retention.days_ago(settings.KOMAND_TIMELINE_DAYS).timestamp() * 1000)
    events = Event.objects.filter(session_id=session_id)
    oldest = events.order_by("seq").values_list("pk", "seq", "ts")
    if not [ts for _, _, ts in oldest[:1] if ts < before]:
        return
    messages = events.filter(type__in=_MESSAGES).order_by("-seq").values_list("seq", flat=True)
    place = settings.KOMAND_TIMELINE_MESSAGES - 1
    kept_from = messages[place : place + 1].first()
    for pk, seq, ts in oldest[:limit]:
        if kept_from is None or seq >= kept_from or ts >= before:
            return
        yield pk


def _old_entries() -> "QuerySet[AuditEntry] | None":
    days = settings.KOMAND_AUDIT_DAYS
    return AuditEntry.objects.filter(pk__lt=first_id_at(retention.days_ago(days))).order_by("pk") if days else None


retention.register(OldTimelines())
retention.register(retention.Expired("entries of the audit log", "KOMAND_AUDIT_DAYS", _old_entries))
