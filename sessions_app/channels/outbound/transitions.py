"""The only writer of a delivery's status: guarded updates whose row count is the verdict, and the facts they make."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, Min, Q, QuerySet, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Concat, Left, Now
from django.utils import timezone

from audit_app import services as audit
from audit_app.event_types import EventType, NewEvent, P
from audit_app.kernel.ids import first_id_at
from sessions_app import events
from sessions_app.channels.nudges import deliveries as bell
from sessions_app.models import IS_OPEN, Delivery, InboundMessage

_ACCOUNT_LENGTH = len(f"{UUID(int=0)}:")  # of a lane's beginning
_WORDS = {
    "failed": "it was refused",
    "unknown": "it may have been delivered",
    "expired": "it could not be delivered in time",
}


def open_draft(row: Delivery, owner: UUID) -> Delivery | None:
    """Insert an unsaved row as a draft, unless it exists, and claim it for this process's previews.

    Returns the stored row, or None if another process holds it or the answer is stored already. While it is claimed,
    nothing is sent under its ordering key.
    """
    row.status = "draft"
    Delivery.objects.bulk_create([row], ignore_conflicts=True)
    rows = Delivery.objects.filter(dedupe_key=row.dedupe_key)
    if not rows.filter(status="draft", owner=None).update(owner=owner):
        return None
    return rows.select_related("account", "session").get()


def note_draft(delivery_id: int, owner: UUID, provider_message_id: str) -> None:
    """Store the id of the message that shows the preview: the answer is to be edited into it."""
    Delivery.objects.filter(pk=delivery_id, owner=owner).update(provider_message_id=provider_message_id)


def finish_draft(first: Delivery) -> None:
    """Turn the draft of an answer, if there is one, into the answer's first part, which is then due."""
    names = ("kind", "parts", "text", "body", "filename", "ready_at", "expires_at")
    rows = Delivery.objects.filter(dedupe_key=first.dedupe_key, status="draft")
    rows.update(status="pending", **{name: getattr(first, name) for name in names})


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
    bell.ring()
    return True


def list_due(
    limit: int, but_accounts: Collection[UUID] = (), but_chats: Collection[tuple[UUID, str]] = ()
) -> list[Delivery]:
    """What could be sent now: the first open message of each lane, if it is ready and nobody is at it.

    but_accounts: those that can send nothing now; what waits there must not stand in the way of others. but_chats: the
    same for chats, each with its account; what answers a press there can be sent all the same.
    """
    heads = Delivery.objects.filter(IS_OPEN).order_by().values("ordering_key").annotate(head=Min("id"))
    due = Delivery.objects.filter(
        pk__in=heads.values("head"),
        status="pending",
        owner=None,
        ready_at__lte=Now(),
        expires_at__gt=Now(),
        account__is_enabled=True,
    )
    if but_accounts:
        due = due.exclude(account__in=but_accounts)
    if but_chats:
        # One list, however many accounts. Lanes begin with the account's id, whatever the database.
        place = Concat(Left("ordering_key", _ACCOUNT_LENGTH), KT("target__chat"), output_field=TextField())
        waiting = [f"{account}:{chat}" for account, chat in but_chats]
        due = due.alias(place=place).exclude(place__in=waiting, target__press="")
    return list(due.select_related("account", "session__agent").order_by("id")[:limit])


def claim(delivery_ids: Collection[int], owner: UUID) -> set[int]:
    """Begin to send: those of them that are this process's now. From here on a crash leaves them in doubt."""
    with transaction.atomic():
        rows = Delivery.objects.filter(pk__in=delivery_ids, status="pending", owner=None)
        return {pk for pk in rows.values_list("pk", flat=True) if _take(pk, owner)}


def _take(pk: int, owner: UUID) -> bool:
    rows = Delivery.objects.filter(pk=pk, status="pending", owner=None)
    return rows.update(status="sending", owner=owner, tries=F("tries") + 1) == 1


def unclaim(delivery_ids: Collection[int], owner: UUID) -> None:
    """They were claimed, and this process ends before it begins to send them: others may."""
    with transaction.atomic():
        rows = Delivery.objects.filter(pk__in=delivery_ids, status="sending", owner=owner)
        rows.update(status="pending", owner=None, tries=F("tries") - 1)


def mark_sent(delivery: Delivery, owner: UUID, provider_message_id: str) -> bool:
    """The platform has taken it; what was in doubt meanwhile is not any more. False: it was given up, or is another's.

    Tells `delivery.sent` with the last part, once.
    """
    with transaction.atomic():
        doubted = Q(status="unknown", owner=None)
        ours = Q(status="sending", owner=owner)
        moved = Delivery.objects.filter(ours | doubted, pk=delivery.pk).update(
            status="sent", owner=None, provider_message_id=provider_message_id, sent_at=Now(), error=""
        )
        if not moved:
            return False
        if _is_told(delivery) and delivery.sent_at is None and not _siblings(delivery).exclude(status="sent").exists():
            ids = list(_siblings(delivery).order_by("part").values_list("provider_message_id", flat=True))
            sent: events.DeliverySent = {
                "channel": delivery.account.channel,
                "parts": delivery.parts,
                "provider_message_ids": ids,
            }
            audit.emit([_event(delivery, events.DELIVERY_SENT, sent)])
        return True


def put_back(delivery: Delivery, owner: UUID, seconds: float, error: str, *, is_try: bool = True) -> bool:
    """It was not sent; it may be tried again after that long. is_try: the platform was asked."""
    ready_at, tries = Now() + timedelta(seconds=seconds), F("tries") - (0 if is_try else 1)
    with transaction.atomic():
        rows = _ours(delivery, owner)
        return bool(rows.update(status="pending", owner=None, tries=tries, ready_at=ready_at, error=error[:500]))


def forget_shown(delivery: Delivery, owner: UUID) -> bool:
    """The message that it was to go into is gone: it goes out as a new one, which must not happen twice. False: another
    process does that."""
    with transaction.atomic():
        return bool(_ours(delivery, owner).update(provider_message_id=""))


def give_up(delivery: Delivery, owner: UUID | None, status: str, error: str) -> bool:
    """Nothing more is done for it: failed, unknown or expired. Later parts of the same answer go with it, unless it
    may have arrived. Tells `delivery.failed`. What was sent, and could not be written once more, stays sent."""
    with transaction.atomic():
        rows = Delivery.objects.filter(pk=delivery.pk, owner=owner, status__in=Delivery.OPEN)
        if delivery.sent_at is not None:
            return bool(rows.update(status="sent", owner=None, error=error[:500]))
        if not rows.update(status=status, owner=None, error=error[:500]):
            return False
        if status != "unknown" and delivery.parts > 1:
            later = _siblings(delivery).filter(part__gt=delivery.part, status="pending", owner=None)
            later.update(status=status, error="An earlier part was not delivered.")
        if _is_told(delivery):
            payload: events.DeliveryFailed = {
                "channel": delivery.account.channel,
                "code": status,
                "part": delivery.part + 1,
                "parts": delivery.parts,
                "message": f"{error} ({_WORDS[status]})" if error else _WORDS[status],
            }
            audit.emit([_event(delivery, events.DELIVERY_FAILED, payload)])
        bell.ring()
        return True


def free(delivery: Delivery) -> bool:
    """Its process died before it began to send, or where doing it twice does no harm."""
    rows = Delivery.objects.filter(pk=delivery.pk, owner=delivery.owner, status=delivery.status)
    status = "pending" if delivery.status == "sending" else delivery.status
    return bool(rows.update(status=status, owner=None))


def send_again(deliveries: Sequence[Delivery], lifetime_seconds: float) -> int:
    """An operator wants what was given up to go out after all. The count of those that will."""
    with transaction.atomic():
        rows = Delivery.objects.filter(
            pk__in=[delivery.pk for delivery in deliveries], status__in=["failed", "unknown", "expired"], owner=None
        )
        count = rows.update(
            status="pending", ready_at=Now(), expires_at=Now() + timedelta(seconds=lifetime_seconds), tries=0, error=""
        )
        bell.ring()
        return count


def is_for_person(delivery: Delivery, seconds: float) -> bool:
    """Whether a person wrote in that chat within so many seconds, or what it answers, however long that had to wait."""
    of_account = InboundMessage.objects.filter(account_id=delivery.account_id)
    # Not `exclude`: it leaves out as well what does not say, such as the press of a button.
    by_people = of_account.filter(Q(metadata__fromBot__isnull=True) | Q(metadata__fromBot=False))
    since = first_id_at(timezone.now() - timedelta(seconds=seconds))
    if by_people.filter(id__gte=since, chat_id=delivery.target["chat"]).exists():
        return True
    return delivery.run_id is not None and by_people.filter(run_id=delivery.run_id).exists()


def _ours(delivery: Delivery, owner: UUID) -> QuerySet[Delivery]:
    return Delivery.objects.filter(pk=delivery.pk, status="sending", owner=owner)


def _siblings(delivery: Delivery) -> QuerySet[Delivery]:
    return Delivery.objects.filter(run=delivery.run_id, ordering_key=delivery.ordering_key)


def _is_told(delivery: Delivery) -> bool:
    """Notices of our own have no run; nobody follows them."""
    return delivery.run_id is not None and delivery.session_id is not None


def _event(delivery: Delivery, event_type: EventType[P], payload: P) -> NewEvent:
    session = delivery.session
    assert session is not None and delivery.run_id is not None  # noqa: S101 - see _is_told
    agent_id = session.agent.agent_id
    return NewEvent(
        event_type,
        session.id,
        payload,
        run_id=delivery.run_id,
        actor=f"agent:{agent_id}",
        agent_id=agent_id,
        session_key=session.key,
    )
