"""The record of a channel's message: stored once for all its keys, together with the outcome."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self
from uuid import UUID

from django.utils import timezone

from audit_app.kernel.ids import first_id_at, new_id
from sessions_app import hot_queries
from sessions_app.models import ChannelAccount, InboundKey, InboundMessage, Turn
from sessions_app.platforms.messages import Attachment, ButtonPress, ChannelMessage, ChatEvent, clean_name

_LONGEST = 200
_MOST_FILES = 10


@dataclass(frozen=True)
class InboundRecord:
    """A message or another event of a channel, not stored yet.

    keys: every id under which the platform may deliver it again.
    files: not fetched yet.
    album_id: the same for all messages of an album.
    begins_album: claim the album, so that no other message begins it.
    admit: called when a message turns out to be new; what it raises keeps the message from being stored.
    """

    row: InboundMessage
    keys: tuple[str, ...]
    files: tuple[Attachment, ...] = ()
    album_id: str = ""
    begins_album: bool = False
    admit: Callable[[], object] | None = None

    @classmethod
    def of_message(cls, account: ChannelAccount, incoming: ChannelMessage, raw: bytes) -> Self:
        chat = incoming.chat
        metadata = {
            **incoming.metadata,
            "chatId": chat.id,
            "chatType": chat.type,
            "threadId": chat.thread_id or None,
            "replyToMessageId": incoming.reply_to_message_id or None,
            "mentionsBot": incoming.mentions_bot,
            "fromBot": incoming.is_from_bot,
            "chatTitle": incoming.chat_title or None,
            "eventId": incoming.event_id,
            "albumId": incoming.album_id or None,
            **({"reference": dict(incoming.reference)} if incoming.reference else {}),
            **({} if incoming.forwarded_from is None else {"forwardedFrom": incoming.forwarded_from}),
        }
        files = [file.as_json() for file in incoming.attachments]
        row = new_row(account, incoming, incoming.message_id, raw, metadata=metadata, attachments=files)
        row.text, row.sent_at = incoming.text, incoming.sent_at
        return cls(row, incoming.keys, incoming.attachments[:_MOST_FILES], incoming.album_id)

    def claim_keys(self) -> None:
        """Store the keys, in the caller's transaction. Raises IntegrityError for a duplicate or a begun album.

        Then calls `admit`, so that a repetition by the platform is never counted as a message.
        """
        keys = (*self.keys, f"album:{self.album_id}") if self.begins_album else self.keys
        hot_queries.INSERT_INBOUND_KEYS.run(
            [InboundKey(account_id=self.row.account_id, key=storable_key(key), message_id=self.row.pk) for key in keys]
        )
        if self.admit:
            self.admit()

    def store(self, *, turn: Turn | None = None, reason: str = "") -> None:
        """Store the message with its outcome, in the same transaction: a user turn, or the reason why it has none.

        It may be called again after the transaction was rolled back.
        """
        row = self.row
        row.turn, row.run_id, row.reason = turn, turn.run_id if turn else None, reason
        if turn is not None:
            row.session_id = turn.session_id
        hot_queries.INSERT_INBOUND_MESSAGES.run([row])

    def find_earlier(self) -> InboundMessage | None:
        """Return the stored message that has one of the keys, or None."""
        rows = InboundMessage.objects.select_related("turn", "session").filter(
            keys__account_id=self.row.account_id, keys__key__in=[storable_key(key) for key in self.keys]
        )
        return rows.first()


def new_row(
    account: ChannelAccount, event: ChannelMessage | ButtonPress | ChatEvent, message_id: str, raw: bytes, **fields: Any
) -> InboundMessage:
    """Return the unsaved row of an event.

    raw: the body of the request.
    fields: further ones of the row.
    """
    now = timezone.now()
    return InboundMessage(
        id=new_id(),
        account=account,
        message_id=message_id[:_LONGEST],
        sender_id=event.sender_id[:_LONGEST],
        sender_name=clean_name(event.sender_name),
        chat_id=event.chat.id[:_LONGEST],
        raw=raw.decode("utf-8", "replace").replace("\0", ""),
        received_at=now,
        **{"sent_at": now, **fields},
    )


def storable_key(key: str) -> str:
    return key if len(key) <= _LONGEST else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def count_refused(account_id: UUID, sender_id: str, reasons: Sequence[str], within: timedelta) -> int:
    """Return how often the sender was refused for one of these reasons within that time."""
    since = first_id_at(timezone.now() - within)
    rows = InboundMessage.objects.filter(account_id=account_id, sender_id=sender_id, id__gte=since)
    return rows.exclude(reason="").filter(reason__in=reasons).count()
