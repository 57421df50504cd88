"""Retention rules of channels, logins and temporary sessions. Other sessions and turns are kept."""

from collections.abc import Iterator
from datetime import timedelta

from django.db import transaction
from django.db.models import CharField, Exists, OuterRef, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from agents_app.models import IS_OPEN, Run
from audit_app import retention
from audit_app.kernel.ids import first_id_at
from audit_app.retention import Expired, days_ago
from sessions_app.models import (
    Delivery,
    GroupMessage,
    InboundKey,
    InboundMessage,
    Login,
    Pairing,
    PushNotice,
    RefreshToken,
    SenderDay,
    SenderLink,
    Session,
    ShareLink,
    Turn,
)

RAW_DAYS = 7
KEY_DAYS = 30  # longer than any platform or client repeats a message
ROW_DAYS = 90
TOKEN_DAYS = 7  # the access tokens of its login refer to it until they have expired too
LOGIN_DAYS = 90
DRAFT_MINUTES = 10
SENDER_DAYS = 7
SHARE_DAYS = 30  # after its end, in which a link is answered as one that has ended
TEMPORARY_MINUTES = 60  # as long as a client may continue a response that is not stored


class OldDeliveries(retention.Rule):
    """Deliveries by age. Reads the rows with the lowest ids, which are the oldest, so that it needs no index."""

    name = "deliveries"
    kept_for = f"{ROW_DAYS} days"

    def prune(self, limit: int) -> int:
        ids = list(self._old(limit))
        with transaction.atomic():
            Delivery.objects.filter(pk__in=ids).delete()
        return len(ids)

    def count(self) -> int:
        return Delivery.objects.filter(created_at__lt=days_ago(ROW_DAYS)).exclude(status__in=self._NOT_OVER).count()

    _NOT_OVER = (*Delivery.OPEN, "draft")

    def _old(self, limit: int) -> Iterator[int]:
        edge = days_ago(ROW_DAYS)
        for pk, made, status in Delivery.objects.order_by("pk").values_list("pk", "created_at", "status")[:limit]:
            if made < edge and status not in self._NOT_OVER:
                yield pk


class TemporarySessions(retention.Rule):
    """Sessions of answers that their clients do not want stored. They are hidden as sessions that a user deletes."""

    name = "conversations of responses that are not stored"
    kept_for = f"{TEMPORARY_MINUTES} minutes after their last message"

    def prune(self, limit: int) -> int:
        ids = list(self._old().values_list("pk", flat=True)[:limit])
        freed = Concat("channel", Value(":"), "account_id", Value(":"), "sender_id", Value(":deleted-"), _TEXT_OF_ID)
        with transaction.atomic():
            rows = Session.objects.filter(pk__in=ids, deleted_at=None)
            rows.update(deleted_at=timezone.now(), key=freed)
        return len(ids)

    def count(self) -> int:
        return self._old().count()

    def _old(self) -> QuerySet[Session]:
        edge = timezone.now() - timedelta(minutes=TEMPORARY_MINUTES)
        open_runs = Run.objects.filter(IS_OPEN, conversation_id=OuterRef("pk"))
        rows = Session.objects.filter(~Exists(open_runs), is_temporary=True, deleted_at=None, last_active_at__lt=edge)
        return rows.order_by("last_active_at")


_TEXT_OF_ID = Cast("pk", CharField())


def _payloads() -> QuerySet[InboundMessage]:
    old = InboundMessage.objects.filter(raw__isnull=False, received_at__lt=days_ago(RAW_DAYS))
    return old.order_by("received_at")


def _inbound_keys() -> QuerySet[InboundKey]:
    return InboundKey.objects.filter(pk__lt=first_id_at(days_ago(KEY_DAYS))).order_by("pk")


def _inbound() -> QuerySet[InboundMessage]:
    return InboundMessage.objects.filter(pk__lt=first_id_at(days_ago(ROW_DAYS))).order_by("pk")


def _group_messages() -> QuerySet[GroupMessage]:
    return GroupMessage.objects.filter(expires_at__lt=timezone.now()).order_by("expires_at")


def _drafts() -> QuerySet[Delivery]:
    ended = timezone.now() - timedelta(minutes=DRAFT_MINUTES)
    return Delivery.objects.filter(status="draft", owner=None, run__ended_at__lt=ended).order_by("pk")


def _idempotency_keys() -> QuerySet[Turn]:
    return Turn.objects.filter(idempotency_key__isnull=False, pk__lt=first_id_at(days_ago(KEY_DAYS))).order_by("pk")


def _refresh_tokens() -> QuerySet[RefreshToken]:
    return RefreshToken.objects.filter(expires_at__lt=days_ago(TOKEN_DAYS)).order_by("expires_at")


def _logins() -> QuerySet[Login]:
    return Login.objects.filter(last_seen_at__lt=days_ago(LOGIN_DAYS)).order_by("last_seen_at")


def _pairing_codes() -> QuerySet[Pairing]:
    # In the order of the partial index of unused codes: in the order of their keys, SQLite would read all pairings.
    unused = Pairing.objects.filter(sender_id="", expires_at__lt=days_ago(1))
    return unused.order_by("account_id", "code_digest")


def _link_codes() -> QuerySet[SenderLink]:
    return SenderLink.objects.filter(linked_at=None, expires_at__lt=days_ago(1)).order_by("expires_at")


def _share_links() -> QuerySet[ShareLink]:
    return ShareLink.objects.filter(expires_at__lt=days_ago(SHARE_DAYS)).order_by("expires_at")


def _sender_days() -> QuerySet[SenderDay]:
    return SenderDay.objects.filter(day__lt=days_ago(SENDER_DAYS).date()).order_by("day")


def _notices() -> QuerySet[PushNotice]:
    return PushNotice.objects.filter(expires_at__lt=days_ago(1)).order_by("expires_at")


for rule in (
    Expired("payloads as received", f"{RAW_DAYS} days", _payloads, empty=("raw",)),
    Expired("keys of inbound messages", f"{KEY_DAYS} days", _inbound_keys),
    Expired("inbound messages", f"{ROW_DAYS} days", _inbound),
    Expired("messages of groups as context", "as long as the account says", _group_messages),
    OldDeliveries(),
    TemporarySessions(),
    Expired("unfinished previews", f"{DRAFT_MINUTES} minutes after the run's end", _drafts),
    Expired("idempotency keys", f"{KEY_DAYS} days", _idempotency_keys, empty=("idempotency_key",)),
    Expired("refresh tokens", f"{TOKEN_DAYS} days after they expired", _refresh_tokens),
    Expired("devices of logins", f"{LOGIN_DAYS} days after their last use", _logins),
    Expired("links to chats", f"{SHARE_DAYS} days after they expired", _share_links),
    Expired("messages per sender and day", f"{SENDER_DAYS} days", _sender_days),
    Expired("unused pairing codes", "a day after they expired", _pairing_codes),
    Expired("unused codes of links", "a day after they expired", _link_codes),
    Expired("notices for browsers", "a day after they expired", _notices),
):
    retention.register(rule)
