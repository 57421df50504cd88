"""The only writer of a delivery's status and owner: guarded updates, which take effect if their row count is 1,
and the events that follow from them."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Concat, Left, Now
from django.utils import timezone

from audit_app import services as audit
from audit_app.event_types import EventType, NewEvent, P
from audit_app.kernel.ids import first_id_at
from sessions_app import events, hot_queries
from sessions_app.channels.nudges import deliveries as delivery_nudge
from sessions_app.models import Delivery, InboundMessage

_ACCOUNT_LENGTH = len(f"{UUID(int=0)}:")  # with which an ordering key begins
_CAUSES = {
    "failed": "it was refused",
    "unknown": "it may have been delivered",
    "expired": "it could not be delivered in time",
}


def open_draft(row: Delivery, owner: UUID, first_key: str) -> Delivery | None:
    """Insert an unsaved row as a draft, unless it exists, and claim it for this process's previews.

    first_key: of the draft of the first part, which this process must hold before it opens a later one.

    Returns the stored row, or None if another process holds it or the answer is stored already. While it is claimed,
    nothing is sent under its ordering key. Owns its transaction.
    """
    if not row.part:
        return _open_draft(row, owner)
    with transaction.atomic():
        first = Delivery.objects.filter(dedupe_key=first_key, status="draft", owner=owner)
        # Locks it: the answer, which locks it too, is stored before this or after it.
        return _open_draft(row, owner) if first.update(owner=owner) else None


def _open_draft(row: Delivery, owner: UUID) -> Delivery | None:
    row.status = "draft"
    Delivery.objects.bulk_create([row], ignore_conflicts=True)
    rows = Delivery.objects.filter(dedupe_key=row.dedupe_key)
    if not rows.filter(status="draft", owner=None).update(owner=owner):
        return None
    return rows.select_related("account", "session").get()


def note_draft(delivery_id: int, owner: UUID, provider_message_id: str) -> None:
    """Store the id of the message that shows the preview: the answer is to be edited into it."""
    Delivery.objects.filter(pk=delivery_id, owner=owner).update(provider_message_id=provider_message_id)


def finish_draft(part: Delivery) -> None:
    """Turn the draft of a part of an answer, if there is one, into that part, which is then due."""
    names = ("kind", "parts", "text", "body", "filename", "ready_at", "expires_at")
    rows = Delivery.objects.filter(dedupe_key=part.dedupe_key, status="draft")
    rows.update(status="pending", **{name: getattr(part, name) for name in names})


def release_draft(key: str, owner: UUID, provider_message_id: str) -> bool:
    """Give up this process's claim on a draft, so that the answer can be sent. Idempotent.

    provider_message_id: the message that showed previews, perhaps not stored yet; empty if there is none. Returns
    False if another process is sending the answer just now: call again in a moment.
    """
    rows = Delivery.objects.filter(dedupe_key=key)
    shown = {"provider_message_id": provider_message_id} if provider_message_id else {}
    is_ours = rows.filter(owner=owner, status__in=["draft", "pending"]).update(owner=None, **shown)
    if shown and not is_ours:
        # This process was taken for dead, and its last preview may have overwritten the answer: send it again.
        is_sent = rows.filter(status="sent").update(status="pending", ready_at=Now())
        if not is_sent and rows.filter(status="sending").exists():
            return False
    delivery_nudge.send_on_commit()
    return True


def list_due(
    limit: int, but_accounts: Collection[UUID] = (), but_chats: Collection[tuple[UUID, str]] = ()
) -> list[Delivery]:
    """Return the first open delivery of each ordering key, if it is due and not claimed, oldest first.

    but_accounts: leave out the deliveries of these accounts, which can send nothing now.
    but_chats: leave out those of these chats, given as account and chat, except replies to button presses.
    """
    if not hot_queries.FIND_DUE_DELIVERY.rows():
        return []
    due = hot_queries.due_deliveries()
    if but_accounts:
        due = due.exclude(account__in=but_accounts)
    if but_chats:
        # One list for all accounts. An ordering key begins with the account's id in the same form on every database.
        place = Concat(Left("ordering_key", _ACCOUNT_LENGTH), KT("target__chat"), output_field=TextField())
        waiting = [f"{account}:{chat}" for account, chat in but_chats]
        due = due.alias(place=place).exclude(place__in=waiting, target__press="")
    doubts = Delivery.objects.filter(is_doubt_open=True, ordering_key=OuterRef("ordering_key"))
    due = due.annotate(has_doubts=Exists(doubts)).select_related("account", "session__agent")
    rows = list(due.order_by("id")[:limit])
    for row in rows:
        row.follows_doubt = row.has_doubts
    return list(rows)


def claim(delivery_ids: Collection[int], owner: UUID) -> set[int]:
    """Claim deliveries for sending; return the ids that were claimed. Owns its transaction.

    If the process dies after this, it is unknown whether they were sent.
    """
    with transaction.atomic():
        rows = Delivery.objects.filter(pk__in=delivery_ids, status="pending", owner=None)
        return {
            pk
            for pk in rows.values_list("pk", flat=True)
            if rows.filter(pk=pk).update(status="sending", owner=owner, tries=F("tries") + 1)
        }


def unclaim(delivery_ids: Collection[int], owner: UUID) -> None:
    """Give back claimed deliveries that this process has not begun to send."""
    with transaction.atomic():
        rows = Delivery.objects.filter(pk__in=delivery_ids, status="sending", owner=owner)
        rows.update(status="pending", owner=None, tries=F("tries") - 1)


def mark_sent(delivery: Delivery, owner: UUID, provider_message_id: str) -> bool:
    """Store that the platform accepted a delivery. Owns its transaction. Emits `delivery.sent` with the last part.

    A delivery that was marked unknown meanwhile becomes sent. Returns False if it was given up or belongs to another
    process.
    """
    with transaction.atomic():
        doubted = Q(status="unknown", owner=None)
        ours = Q(status="sending", owner=owner)
        moved = Delivery.objects.filter(ours | doubted, pk=delivery.pk).update(
            status="sent",
            owner=None,
            provider_message_id=provider_message_id,
            sent_at=Now(),
            error="",
            is_doubt_open=False,
        )
        if not moved:
            return False
        parts, channel = _siblings(delivery), delivery.account.channel
        is_answer = _has_events(delivery) and delivery.kind != "step"
        if is_answer and delivery.sent_at is None and not parts.exclude(status="sent").exists():
            ids = list(parts.order_by("part").values_list("provider_message_id", flat=True))
            sent: events.DeliverySent = {"channel": channel, "parts": delivery.parts, "provider_message_ids": ids}
            audit.emit([_event(delivery, events.DELIVERY_SENT, sent)])
        return True


def put_back(delivery: Delivery, owner: UUID, seconds: float, error: str, *, is_try: bool = True) -> bool:
    """Schedule a delivery that was not sent for a retry. Owns its transaction. Returns whether it was this process's.

    seconds: the pause before the retry.
    is_try: the platform was called, which counts as a try.
    """
    ready_at, tries = Now() + timedelta(seconds=seconds), F("tries") - (0 if is_try else 1)
    with transaction.atomic():
        rows = _ours(delivery, owner)
        return bool(rows.update(status="pending", owner=None, tries=tries, ready_at=ready_at, error=error[:500]))


def forget_shown(delivery: Delivery, owner: UUID) -> bool:
    """Forget the message that was to be edited, before a new one is sent instead. Owns its transaction.

    Returns False if another process has the delivery: then it sends the new message.
    """
    with transaction.atomic():
        return bool(_ours(delivery, owner).update(provider_message_id=""))


def give_up(delivery: Delivery, owner: UUID | None, status: str, error: str) -> bool:
    """End a delivery as failed, unknown or expired. Owns its transaction. Emits `delivery.failed`.

    Later parts of the same answer end with it, unless it may have arrived. A delivery that had been sent, and was only
    to be edited again, stays sent. Returns whether it took effect.
    """
    with transaction.atomic():
        rows = Delivery.objects.filter(pk=delivery.pk, owner=owner, status__in=Delivery.OPEN)
        if delivery.sent_at is not None:
            return bool(rows.update(status="sent", owner=None, error=error[:500]))
        is_doubtful = status == "unknown" and delivery.kind != "press"
        if not rows.update(status=status, owner=None, error=error[:500], is_doubt_open=is_doubtful):
            return False
        if status != "unknown" and delivery.parts > 1:
            later = _siblings(delivery).filter(part__gt=delivery.part, status="pending", owner=None)
            later.update(status=status, error="An earlier part was not delivered.")
        _emit_failed(delivery, status, error)
        delivery_nudge.send_on_commit()
        return True


def move_times(by: timedelta) -> None:
    """Move the times of open deliveries by a time in which no process ran, in the caller's transaction."""
    rows = Delivery.objects.filter(status__in=Delivery.OPEN)
    rows.update(ready_at=F("ready_at") + by, expires_at=F("expires_at") + by)


def note_report(account_id: UUID, message_id: str, state: str, error: str) -> bool:
    """Store a platform's report about a message that was sent. Idempotent. Owns its transaction.

    state: delivered | read | failed. A message that was delivered or read neither fails nor becomes less afterwards. A
    failure ends the delivery as failed and emits `delivery.failed`. Returns whether it took effect.
    """
    with transaction.atomic():
        rows = Delivery.objects.filter(account_id=account_id, provider_message_id=message_id, status="sent")
        if state != "failed":
            earlier = ["", "delivered"] if state == "read" else [""]
            return bool(rows.filter(report__in=earlier).update(report=state, reported_at=Now()))
        delivery = rows.filter(report="").select_related("account", "session__agent").first()
        if delivery is None or not rows.filter(pk=delivery.pk, report="").update(status="failed", error=error[:500]):
            return False
        _emit_failed(delivery, "failed", error)
        return True


def free(delivery: Delivery) -> bool:
    """Release the claim of a process that died before it began to send, or whose send may be repeated."""
    rows = Delivery.objects.filter(pk=delivery.pk, owner=delivery.owner, status=delivery.status)
    status = "pending" if delivery.status == "sending" else delivery.status
    return bool(rows.update(status=status, owner=None))


def send_again(deliveries: Sequence[Delivery], lifetime_seconds: float) -> int:
    """Send deliveries that were given up, by an operator's choice. Owns its transaction. Returns their number."""
    with transaction.atomic():
        pks, expires_at = [delivery.pk for delivery in deliveries], Now() + timedelta(seconds=lifetime_seconds)
        rows = Delivery.objects.filter(pk__in=pks, status__in=["failed", "unknown", "expired"], owner=None)
        count = rows.update(
            status="pending", ready_at=Now(), expires_at=expires_at, tries=0, error="", is_doubt_open=False
        )
        delivery_nudge.send_on_commit()
        return count


def is_for_person(delivery: Delivery, seconds: float) -> bool:
    """Return whether a person wrote in that chat within so many seconds, or wrote the message that it answers."""
    of_account = InboundMessage.objects.filter(account_id=delivery.account_id)
    # Not `exclude`: it would also leave out rows without the key, such as button presses.
    by_people = of_account.filter(Q(metadata__fromBot__isnull=True) | Q(metadata__fromBot=False))
    since = first_id_at(timezone.now() - timedelta(seconds=seconds))
    if by_people.filter(id__gte=since, chat_id=delivery.target["chat"]).exists():
        return True
    return delivery.run_id is not None and by_people.filter(run_id=delivery.run_id).exists()


def _ours(delivery: Delivery, owner: UUID) -> QuerySet[Delivery]:
    return Delivery.objects.filter(pk=delivery.pk, status="sending", owner=owner)


def _siblings(delivery: Delivery) -> QuerySet[Delivery]:
    """Return the deliveries of the same message: the parts of an answer, of a text before it, or of a notice."""
    rows = Delivery.objects.filter(run=delivery.run_id, ordering_key=delivery.ordering_key)
    # Notices have no run, and those of a chat are separate messages: only the key tells which parts belong together.
    if delivery.kind == "step" or delivery.run_id is None:
        return rows.filter(dedupe_key__startswith=f"{delivery.dedupe_key.rpartition(':')[0]}:")
    return rows.exclude(kind="step")


def _has_events(delivery: Delivery) -> bool:
    """Return whether events are emitted for it: notices of our own have no run, and none."""
    return delivery.run_id is not None and delivery.session_id is not None


def _emit_failed(delivery: Delivery, status: str, error: str) -> None:
    if _has_events(delivery):
        payload: events.DeliveryFailed = {
            "channel": delivery.account.channel,
            "code": status,
            "part": delivery.part + 1,
            "parts": delivery.parts,
            "message": f"{error} ({_CAUSES[status]})" if error else _CAUSES[status],
        }
        audit.emit([_event(delivery, events.DELIVERY_FAILED, payload)])


def _event(delivery: Delivery, event_type: EventType[P], payload: P) -> NewEvent:
    session = delivery.session
    assert session is not None and delivery.run_id is not None  # noqa: S101 - see _has_events
    agent_id, run_id = session.agent.agent_id, delivery.run_id
    by_agent: dict[str, Any] = {"actor": f"agent:{agent_id}", "agent_id": agent_id, "session_key": session.key}
    return NewEvent(event_type, session.id, payload, run_id, **by_agent)
