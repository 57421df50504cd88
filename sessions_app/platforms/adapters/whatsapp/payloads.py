"""Events of the Cloud API's webhook: messages, statuses, pressed buttons, reactions. Pure.

See https://developers.facebook.com/docs/whatsapp/cloud-api/webhooks. Users with a user name may have no phone number.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sessions_app.platforms.messages import (
    Attachment,
    ButtonPress,
    ChannelEvent,
    ChannelMessage,
    Chat,
    ChatMoved,
    DeliveryReport,
    Ignored,
    OfAccount,
    Quoted,
    Reaction,
    is_command,
)

Json = Mapping[str, Any]

_FILES = {"image": "image", "video": "video", "audio": "audio", "document": "file", "sticker": "sticker"}
_STATES = ("delivered", "read", "failed")
_EXTRAS = ("referral", "order", "location", "contacts")


def read_payload(payload: Any, phone_number_id: str) -> list[ChannelEvent]:
    """Return the events of a request, those of other numbers as of their accounts. Malformed ones are ignored."""
    found: list[ChannelEvent] = []
    for change in _items(payload, "entry", "changes"):
        value = change.get("value")
        if change.get("field") != "messages" or not isinstance(value, dict):
            found.append(Ignored("other_field"))
            continue
        metadata = value.get("metadata")
        number = str(metadata.get("phone_number_id", "")) if isinstance(metadata, dict) else ""
        events = [_safely(_read_message, item, value) for item in _items(value, "messages")]
        events += [_safely(_read_status, item, value) for item in _items(value, "statuses")]
        is_ours = number == phone_number_id
        found += events if is_ours else [OfAccount(number, event) for event in events]
    return found


def _items(value: Any, *names: str) -> Iterator[Json]:
    """Yield the objects of nested lists."""
    if not names:
        if isinstance(value, dict):
            yield value
        return
    inner = value.get(names[0]) if isinstance(value, dict) else None
    for item in inner if isinstance(inner, list) else ():
        yield from _items(item, *names[1:])


def _safely(read: Callable[[Json, Json], ChannelEvent], item: Json, value: Json) -> ChannelEvent:
    try:
        return read(item, value)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError):
        return Ignored("malformed")


def _read_message(message: Json, value: Json) -> ChannelEvent:
    sender = _text(message.get("from") or message["from_user_id"])
    name, kind, message_id = _name(value, sender), _text(message["type"]), _text(message["id"])
    chat = Chat(_text(message["group_id"]), "group") if message.get("group_id") else Chat(sender)
    context = message.get("context") or {}
    reference = {} if message.get("from") else {"hasNoNumber": True}
    match kind:
        case "reaction":
            emoji = _text(message["reaction"].get("emoji") or "")
            return Reaction(_text(message["reaction"]["message_id"]), sender, chat, emoji, is_removed=not emoji)
        case "interactive":
            reply = message["interactive"].get("button_reply") or message["interactive"]["list_reply"]
            card = _text(context.get("id") or "")
            keys = (f"message:{message_id}",)
            return ButtonPress(_text(reply["id"]), sender, name, chat, card, message_id, keys, reference)
        case "system" if message["system"].get("wa_id"):
            return ChatMoved(sender, _text(message["system"]["wa_id"]))
    text, attachments = _content(message, kind)
    if text is None:
        return Ignored(f"type_{kind}"[:50])
    mentions = _is_for_us(context, text, value)
    extras = {name: message[name] for name in _EXTRAS if name in message}
    is_forwarded = bool(context.get("forwarded") or context.get("frequently_forwarded"))
    quoted_id = _text(context.get("id") or "")
    return ChannelMessage(
        message_id=message_id,
        sender_id=sender,
        sender_name=name,
        text=text,
        sent_at=datetime.fromtimestamp(int(message["timestamp"]), UTC),
        chat=chat,
        keys=(f"message:{message_id}",),
        is_addressed=chat.type == "direct" or mentions or is_command(text),
        mentions_bot=mentions,
        quoted=(Quoted(key=f"message:{quoted_id}", message_id=quoted_id),) if quoted_id else (),
        forwarded_from="" if is_forwarded else None,
        reply_to_message_id=quoted_id,
        event_id=message_id,
        attachments=attachments,
        metadata={**extras, "forwarded": is_forwarded, "userId": message.get("from_user_id")},
        reference=reference,
    )


def _content(message: Json, kind: str) -> tuple[str | None, tuple[Attachment, ...]]:
    """Return the text and the files of a message, None if its type is not one that people write."""
    if kind in _FILES:
        file = message[kind]
        shown_as = "voice" if file.get("voice") else _FILES[kind]
        name, mime_type = file.get("filename"), file.get("mime_type")
        attachment = Attachment(
            _text(file["id"]), shown_as, _text(name or "") or None, _text(mime_type or "").partition(";")[0] or None
        )
        return _text(file.get("caption") or ""), (Attachment(**{**vars(attachment), "auth": "bot"}),)
    match kind:
        case "text":
            return _text(message["text"]["body"]).replace("\0", ""), ()
        case "button":
            return _text(message["button"]["text"]), ()
        case "location":
            return _place(message["location"]), ()
        case "contacts":
            return "\n".join(map(_card, message["contacts"])), ()
        case "order":
            return f"Order: {_text(message['order'].get('text') or '')}".strip(), ()
    return None, ()


def _place(location: Json) -> str:
    names = [_text(location[name]) for name in ("name", "address") if location.get(name)]
    return ", ".join([f"Location: {float(location['latitude'])}, {float(location['longitude'])}", *names])


def _card(card: Json) -> str:
    numbers = [_text(phone["phone"]) for phone in card.get("phones") or () if phone.get("phone")]
    return ", ".join([f"Contact: {_text(card['name']['formatted_name'])}", *numbers])


def _read_status(status: Json, value: Json) -> ChannelEvent:
    state, errors = _text(status["status"]), status.get("errors") or ()
    if state not in _STATES:
        return Ignored("status")
    problems: Sequence[str] = [f"{error.get('title') or 'error'} ({error.get('code')})" for error in errors]
    return DeliveryReport(_text(status["id"]), state, ", ".join(problems)[:500])


def _is_for_us(context: Json, text: str, value: Json) -> bool:
    """Return whether a message of a group answers or names our number."""
    ours = "".join(filter(str.isdigit, _text(value["metadata"].get("display_phone_number") or "")))
    return bool(ours) and (context.get("from") == ours or f"@{ours}" in text)


def _name(value: Json, sender: str) -> str:
    """Return the name in the profile of the sender."""
    for contact in _items(value, "contacts"):
        if sender in (contact.get("wa_id"), contact.get("user_id")):
            profile = contact.get("profile") or {}
            return _text(profile.get("name") or profile.get("username") or "")
    return ""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value
