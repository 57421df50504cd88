"""A message as it arrived from a channel: stored beside what became of it, once for all the keys it may come by."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Self
from uuid import UUID

from django.utils import timezone

from audit_app.kernel.ids import first_id_at, new_id
from sessions_app import hot_queries
from sessions_app.channels.messages import Attachment, ChannelMessage, Chat
from sessions_app.models import ChannelAccount, InboundKey, InboundMessage, Turn

_LONGEST = 200
_MOST_FILES = 10


@dataclass(frozen=True)
class InboundRecord:
    """keys: by which the platform may deliver it again; row: not stored yet; files: not fetched yet; album_id: the same
    for all messages of an album; begins_album: no other message is to begin it, too."""

    row: InboundMessage
    keys: tuple[str, ...]
    files: tuple[Attachment, ...] = ()
    album_id: str = ""
    begins_album: bool = False

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
        }
        row = new_row(
            account,
            chat,
            incoming.sender_id,
            incoming.sender_name,
            incoming.message_id,
            metadata,
            raw,
            text=incoming.text,
            sent_at=incoming.sent_at,
            attachments=[_attachment(attachment) for attachment in incoming.attachments],
        )
        return cls(row, incoming.keys, incoming.attachments[:_MOST_FILES], incoming.album_id)

    def claim_keys(self) -> None:
        """In the caller's transaction; raises IntegrityError when the message has arrived before, or when its album has
        begun with another."""
        keys = (*self.keys, f"album:{self.album_id}") if self.begins_album else self.keys
        hot_queries.INSERT_INBOUND_KEYS.run(
            [InboundKey(account_id=self.row.account_id, key=storable_key(key), message_id=self.row.pk) for key in keys]
        )

    def store(self, *, turn: Turn | None = None, reason: str = "") -> None:
        """In the same transaction: what became of it, a user turn with its run or the reason why there is none. What an
        earlier try made of it, which was rolled back, is forgotten."""
        row = self.row
        row.turn, row.run_id, row.reason = turn, turn.run_id if turn else None, reason
        if turn is not None:
            row.session_id = turn.session_id
        hot_queries.INSERT_INBOUND_MESSAGES.run([row])

    def find_earlier(self) -> InboundMessage | None:
        """The same message as it arrived the first time."""
        rows = InboundMessage.objects.select_related("turn", "session").filter(
            keys__account_id=self.row.account_id, keys__key__in=[storable_key(key) for key in self.keys]
        )
        return rows.first()


def new_row(
    account: ChannelAccount,
    chat: Chat,
    sender_id: str,
    sender_name: str,
    message_id: str,
    metadata: dict[str, Any],
    raw: bytes,
    **fields: Any,
) -> InboundMessage:
    now = timezone.now()
    return InboundMessage(
        id=new_id(),
        account=account,
        message_id=message_id[:_LONGEST],
        sender_id=sender_id[:_LONGEST],
        sender_name=clean_name(sender_name),
        chat_id=chat.id[:_LONGEST],
        metadata=metadata,
        raw=raw.decode("utf-8", "replace").replace("\0", ""),
        received_at=now,
        **{"sent_at": now, **fields},
    )


def clean_name(name: str) -> str:
    """A display name without control characters, of a length that fits."""
    return "".join(character for character in name if character.isprintable()).strip()[:_LONGEST]


def storable_key(key: str) -> str:
    return key if len(key) <= _LONGEST else f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def count_refused(account_id: UUID, sender_id: str, reasons: Sequence[str], within: timedelta) -> int:
    """How often the sender was refused for one of these reasons lately."""
    since = first_id_at(timezone.now() - within)
    rows = InboundMessage.objects.filter(account_id=account_id, sender_id=sender_id, id__gte=since)
    return rows.exclude(reason="").filter(reason__in=reasons).count()


def _attachment(attachment: Attachment) -> dict[str, Any]:
    fields = asdict(attachment)
    return {
        "id": fields["id"],
        "kind": fields["kind"],
        "filename": fields["filename"],
        "mimeType": fields["mime_type"],
        "sizeBytes": fields["size_bytes"],
        "url": fields["url"],
        "auth": fields["auth"],
    }
