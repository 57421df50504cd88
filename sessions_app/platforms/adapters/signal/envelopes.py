"""Envelopes of signal-cli (https://github.com/AsamK/signal-cli): messages, edits, deletions, reactions. Pure.

A message is known by its sender and its time in milliseconds. Positions count UTF-16 code units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sessions_app.platforms.messages import (
    Attachment,
    ChannelEvent,
    ChannelMessage,
    Chat,
    DeliveryReport,
    Ignored,
    MessageDeleted,
    MessageEdited,
    Quoted,
    Reaction,
    is_command,
)

Json = Mapping[str, Any]

# The attachment with the whole text of a message that is too long for its body.
LONG_TEXT = "text/x-signal-plain"
_KINDS = ("image", "audio", "video")
_OTHER = ("syncMessage", "typingMessage", "callMessage", "storyMessage")
_PLACEHOLDER = "\ufffc"  # a mention, in the text


@dataclass(frozen=True)
class Us:
    """Our number and account id. reads_all: every message of a group is meant for us."""

    number: str
    uuid: str = ""
    reads_all: bool = False

    def is_one_of(self, *ids: Any) -> bool:
        return any(known and known in ids for known in (self.number, self.uuid))


def envelope_of(event: Any) -> tuple[Json, str] | None:
    """Return the envelope and the account of an event, in whichever of three shapes it comes; None if it has none.

    These are the parameters alone, a JSON-RPC notification, and one of a subscription.
    """
    for _ in range(3):
        if not isinstance(event, dict):
            return None
        if isinstance(event.get("envelope"), dict):
            return event["envelope"], str(event.get("account") or "")
        event = event.get("params") or event.get("result")
    return None


def read_envelope(envelope: Json, us: Us) -> list[ChannelEvent]:
    """Return the events of an envelope: one, or several receipts. A malformed one is ignored."""
    try:
        if receipt := envelope.get("receiptMessage"):
            return _read_receipt(receipt)
        return [_read(envelope, us)]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return [Ignored("malformed")]


def _read(envelope: Json, us: Us) -> ChannelEvent:
    if any(envelope.get(name) for name in _OTHER):
        return Ignored("other_kind")
    sender = envelope.get("sourceUuid") or envelope["sourceNumber"]
    if us.is_one_of(sender, envelope.get("sourceNumber")):
        return Ignored("own_message")
    if edit := envelope.get("editMessage"):
        text, _ = _read_text(edit["dataMessage"], us)
        return MessageEdited(_key(sender, edit["targetSentTimestamp"]), sender, text)
    data = envelope.get("dataMessage")
    if not data:
        return Ignored("no_message")
    if deleted := data.get("remoteDelete"):
        return MessageDeleted(_key(sender, deleted["timestamp"]))
    if reaction := data.get("reaction"):
        return _read_reaction(reaction, data, sender, us)
    return _read_message(envelope, data, sender, us)


def _read_message(envelope: Json, data: Json, sender: str, us: Us) -> ChannelEvent:
    text, is_mentioned = _read_text(data, us)
    chat = _chat(data, sender)
    files = tuple(_attachment(file, chat) for file in data.get("attachments") or ())
    if not text and not files:
        return Ignored("no_content")  # changes of groups and timers, calls, payments, polls
    at, quote = int(data["timestamp"]), data.get("quote") or {}
    answers_us = us.is_one_of(quote.get("authorUuid"), quote.get("authorNumber"), quote.get("author"))
    is_addressed = chat.type == "direct" or us.reads_all or is_mentioned or answers_us or is_command(text)
    number = str(envelope.get("sourceNumber") or "")
    return ChannelMessage(
        message_id=_key(sender, at),
        sender_id=sender,
        sender_name=str(envelope.get("sourceName") or ""),
        text=text,
        sent_at=datetime.fromtimestamp(at / 1000, UTC),
        chat=chat,
        keys=(f"message:{_key(sender, at)}",),
        is_addressed=is_addressed,
        mentions_bot=is_mentioned,
        mentions_others=not all(
            us.is_one_of(each.get("uuid"), each.get("number")) for each in data.get("mentions") or ()
        ),
        quoted=(_quoted(quote, us, sender),) if quote else (),
        chat_title=str((data.get("groupInfo") or {}).get("groupName") or ""),
        reply_to_message_id=str(quote.get("id") or ""),
        event_id=str(at),
        attachments=files,
        metadata={"number": number, "viewOnce": bool(data.get("viewOnce"))},
        reference={"timestamp": at, "author": sender},
    )


def _quoted(quote: Json, us: Us, sender: str) -> Quoted:
    writers = [quote.get(name) for name in ("authorUuid", "authorNumber", "author")]
    is_known = sender in writers or us.is_one_of(*writers)
    return Quoted(
        str(quote.get("text") or ""),
        "" if is_known else str(quote.get("authorNumber") or ""),
        f"message:{writers[0] or writers[1]}:{quote.get('id')}",
        str(quote.get("id") or ""),
        is_known=is_known,
    )


def _chat(data: Json, sender: str) -> Chat:
    group = (data.get("groupInfo") or {}).get("groupId")
    return Chat(group, "group") if isinstance(group, str) and group else Chat(sender)


def _key(sender: Any, timestamp: Any) -> str:
    if not isinstance(sender, str):
        raise TypeError("the sender is not a text")
    return f"{sender}:{int(timestamp)}"


def _read_text(data: Json, us: Us) -> tuple[str, bool]:
    """Return the text with our mention removed and those of others as names, and whether we are mentioned."""
    text = data.get("message") or ""
    if not isinstance(text, str):
        raise TypeError("the text is not a string")
    units = text.encode("utf-16-le", "surrogatepass")
    is_mentioned = False
    for mention in sorted(data.get("mentions") or (), key=lambda mention: -int(mention["start"])):
        start, end = 2 * int(mention["start"]), 2 * (int(mention["start"]) + int(mention["length"]))
        is_ours = us.is_one_of(mention.get("uuid"), mention.get("number"))
        is_mentioned = is_mentioned or is_ours
        name = "" if is_ours else f"@{mention.get('name') or mention.get('number') or 'someone'}"
        units = units[:start] + name.encode("utf-16-le", "surrogatepass") + units[end:]
    shown = units.decode("utf-16-le", "replace").replace("\0", "").replace(_PLACEHOLDER, "")
    return (shown.strip() if is_mentioned else shown), is_mentioned


def _attachment(file: Json, chat: Chat) -> Attachment:
    """Return a file. Its id begins with the chat, which the daemon asks for."""
    mime_type, size = file.get("contentType"), file.get("size")
    if not isinstance(file["id"], str) or not isinstance(mime_type, str | None) or not isinstance(size, int | None):
        raise TypeError("the file is malformed")
    file_id = f"{chat.type}:{chat.id}:{file['id']}"
    family = str(mime_type).partition("/")[0]
    kind = "voice" if file.get("isVoiceNote") else family if family in _KINDS else "file"
    name = file.get("filename")
    shown = "text.txt" if mime_type == LONG_TEXT else name if isinstance(name, str) else None
    return Attachment(file_id, kind, shown, mime_type, size, None, "bot")


def _read_reaction(reaction: Json, data: Json, sender: str, us: Us) -> ChannelEvent:
    authors = (reaction.get(name) for name in ("targetAuthorUuid", "targetAuthorNumber", "targetAuthor"))
    if not us.is_one_of(*authors):
        return Ignored("reaction_to_others")
    target, emoji = str(int(reaction["targetSentTimestamp"])), str(reaction["emoji"])
    return Reaction(target, sender, _chat(data, sender), emoji, is_removed=bool(reaction.get("isRemove")))


def _read_receipt(receipt: Json) -> list[ChannelEvent]:
    state = "read" if receipt.get("isRead") or receipt.get("isViewed") else "delivered"
    return [DeliveryReport(str(int(timestamp)), state) for timestamp in receipt["timestamps"]]
