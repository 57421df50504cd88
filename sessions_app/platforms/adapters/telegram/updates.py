"""Parsing of Telegram's updates (https://core.telegram.org/bots/api#update). Pure.

Offsets and lengths of entities count UTF-16 code units. Ids need more than 32 bits and are kept as text.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sessions_app.platforms.messages import (
    Attachment,
    ButtonPress,
    ChannelEvent,
    ChannelMessage,
    Chat,
    ChatEvent,
    ChatMoved,
    Ignored,
    MessageEdited,
    Quoted,
    Reaction,
    StopRequest,
    is_command,
)

Json = Mapping[str, Any]

_SPACE = " ".encode("utf-16-le")
_CHAT_TYPES = {"private": "direct", "group": "group", "supergroup": "group", "channel": "channel"}
# Fields of service messages.
_SERVICE = (
    "new_chat_members",
    "left_chat_member",
    "new_chat_title",
    "new_chat_photo",
    "delete_chat_photo",
    "pinned_message",
    "group_chat_created",
    "supergroup_chat_created",
    "channel_chat_created",
    "message_auto_delete_timer_changed",
    "migrate_from_chat_id",
    "forum_topic_created",
    "forum_topic_edited",
    "forum_topic_closed",
    "forum_topic_reopened",
    "video_chat_started",
    "video_chat_ended",
    "video_chat_scheduled",
    "video_chat_participants_invited",
)
# Fields of messages that have neither text nor a file, and no words of ours.
_UNREADABLE = ("dice", "game", "story", "checklist")
_FILES = {
    "animation": "video",
    "document": "file",
    "voice": "voice",
    "audio": "audio",
    "video": "video",
    "video_note": "video",
    "sticker": "sticker",
}

_LARGEST_FILE = 2**53  # ids and sizes have so many bits at most


@dataclass(frozen=True)
class Bot:
    """Our bot.

    username: without the at sign, perhaps unknown.
    reads_all: in groups, answer every message.
    """

    id: str
    username: str = ""
    reads_all: bool = False
    known_bots: frozenset[str] = frozenset()


def read_update(update: Any, bot: Bot) -> ChannelEvent:
    """Return the event of an update. Malformed and unknown updates are ignored: after a refusal, Telegram would hold
    back the chat's later updates."""
    try:
        for kind, read in _READERS.items():
            if kind in update:
                return read(update[kind], f"update:{int(update['update_id'])}", bot)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError):
        return Ignored("odd_shape")
    return Ignored("unwanted_kind")


def _read_message(message: Json, key: str, bot: Bot) -> ChannelEvent:
    if new_id := message.get("migrate_to_chat_id"):
        return ChatMoved(str(message["chat"]["id"]), str(new_id))
    if any(kind in message for kind in _SERVICE):
        return Ignored("service_message")
    if not (message.get("from") or message.get("sender_chat")):
        return Ignored("no_sender")
    sender, author = message.get("sender_chat"), message.get("from", {})
    if str(message.get("via_bot", {}).get("id", "")) == bot.id or str(author.get("id")) == bot.id:
        return Ignored("own_message")
    if author.get("is_bot") and not sender and str(author["id"]) not in bot.known_bots:
        return Ignored("other_bot")
    text, names_us, for_other_bot = _read_text(message, bot)
    sender_id = str(sender["id"] if sender else author["id"])
    if for_other_bot:
        return Ignored("command_for_other_bot")
    reply = _reply(message)
    is_reply = str(reply.get("from", {}).get("id", "")) == bot.id
    chat = _chat(message)
    native = f"{chat.id}:{int(message['message_id'])}"
    is_addressed = chat.type == "direct" or bot.reads_all or is_reply or names_us or is_command(text)
    return ChannelMessage(
        message_id=native,
        sender_id=sender_id,
        sender_name=str(sender.get("title") or sender.get("username") or "") if sender else _person(author),
        text=text,
        sent_at=_moment(message["date"]),
        chat=chat,
        keys=(key, f"message:{native}"),
        is_addressed=is_addressed,
        mentions_bot=names_us,
        mentions_others=_names_others(message, bot),
        thread_id=chat.thread_id,
        quoted=tuple(_quoted(message, reply, {bot.id, sender_id})),
        forwarded_from=_origin(message["forward_origin"]) if message.get("forward_origin") else None,
        is_from_bot=bool(author.get("is_bot")) and not sender,
        chat_title=str(message["chat"].get("title") or ""),
        reply_to_message_id=f"{chat.id}:{reply['message_id']}" if reply else "",
        event_id=key.removeprefix("update:"),
        attachments=_attachments(message),
        album_id=f"{chat.id}:{message['media_group_id']}" if message.get("media_group_id") else "",
        unreadable=next((kind for kind in _UNREADABLE if kind in message), ""),
        metadata={
            "telegramChatId": chat.id,
            "userId": str(author.get("id", "")),
            "languageCode": author.get("language_code"),
            "mediaGroupId": message.get("media_group_id"),
        },
    )


def _read_press(query: Json, key: str, bot: Bot) -> ChannelEvent:
    message = query.get("message")
    if not message or "data" not in query:
        return Ignored("press_without_message")
    chat, who = _chat(message), query["from"]
    return ButtonPress(
        action_id=str(query["data"]),
        sender_id=str(who["id"]),
        sender_name=_person(who),
        chat=chat,
        message_id=f"{chat.id}:{message['message_id']}",
        press_id=str(query["id"]),
        keys=(key,),
    )


def _read_membership(change: Json, key: str, bot: Bot) -> ChannelEvent:
    status = str(change["new_chat_member"]["status"])
    note = "chat_left" if status in ("kicked", "left") else "chat_joined"
    who = change["from"]
    return ChatEvent(note, _chat(change), str(who["id"]), _person(who), (key,), _moment(change["date"]))


def _read_edit(message: Json, key: str, bot: Bot) -> ChannelEvent:
    event = _read_message(message, key, bot)
    if not isinstance(event, ChannelMessage):
        return event
    return MessageEdited(f"message:{event.message_id}", event.sender_id, event.text)


def _read_reaction(change: Json, key: str, bot: Bot) -> ChannelEvent:
    who, chat = change.get("user") or {}, _chat(change)
    if not who or who.get("is_bot"):
        return Ignored("no_person")
    [reaction, *_] = change["new_reaction"] or change["old_reaction"]
    emoji, is_removed = str(reaction.get("emoji", "")), not change["new_reaction"]
    return Reaction(str(int(change["message_id"])), str(who["id"]), chat, emoji, is_removed)


_READERS: dict[str, Callable[[Json, str, Bot], ChannelEvent]] = {
    "message": _read_message,
    "edited_message": _read_edit,
    "message_reaction": _read_reaction,
    "callback_query": _read_press,
    "my_chat_member": _read_membership,
    "stopped_message_generation": lambda stop, key, bot: StopRequest(_chat(stop), int(stop["draft_id"])),
}


def _reply(message: Json) -> Json:
    """Return the answered message. In a topic, every message seems to answer the service message that opened it."""
    reply: Json = message.get("reply_to_message") or {}
    return {} if "forum_topic_created" in reply else reply


def _quoted(message: Json, reply: Json, known: set[str]) -> Iterator[Quoted]:
    """Yield the answered message: the part that was chosen of it, else its text. known: ids of us and of the sender."""
    chosen = str((message.get("quote") or {}).get("text") or "")
    external = message.get("external_reply") or {}
    if reply:
        writer = reply.get("sender_chat") or reply.get("from") or {}
        text = chosen or str(reply.get("text") or reply.get("caption") or "")
        # What the sender has forwarded before is in a message of the sender, too.
        is_known = str(writer.get("id", "")) in known and not reply.get("forward_origin")
        author = "" if is_known else str(writer.get("title") or "") or _person(writer)
        yield Quoted(text, author, f"message:{_chat(message).id}:{reply['message_id']}", is_known=is_known)
    elif chosen and external:
        yield Quoted(chosen, _origin(external.get("origin") or {}), is_forward=True)


def _origin(origin: Json) -> str:
    """Return the name of the author of a forwarded message, empty if it is hidden."""
    chat = origin.get("sender_chat") or origin.get("chat") or {}
    name = origin.get("sender_user_name") or chat.get("title") or origin.get("author_signature")
    return str(name or "") or _person(origin.get("sender_user") or {})


def _names_others(message: Json, bot: Bot) -> bool:
    """Return whether the message names somebody else."""
    units = str(message.get("text") or message.get("caption") or "").encode("utf-16-le", "surrogatepass")
    for entity in message.get("entities") or message.get("caption_entities") or ():
        start, end = 2 * int(entity["offset"]), 2 * (int(entity["offset"]) + int(entity["length"]))
        text = units[start:end].decode("utf-16-le", "replace")
        if entity["type"] in ("mention", "text_mention") and not _is_mention(entity, text, bot):
            return True
    return False


def _chat(message: Json) -> Chat:
    chat = message["chat"]
    # In a private chat a thread is always a topic; in a group it may be just a chain of replies.
    has_topic = message.get("is_topic_message") or (chat.get("type") == "private" and "message_thread_id" in message)
    thread = str(message["message_thread_id"]) if has_topic else ""
    return Chat(str(int(chat["id"])), _CHAT_TYPES.get(chat.get("type", "private"), "group"), thread)


def _read_text(message: Json, bot: Bot) -> tuple[str, bool, bool]:
    """Return the text, whether it names us, and whether it is another bot's command. Our name is cut out of it."""
    text = message.get("text") or message.get("caption") or _in_words(message)
    if not isinstance(text, str):
        raise TypeError("the text is not a string")
    units = text.encode("utf-16-le", "surrogatepass")
    for_other_bot, removed = False, []
    for entity in message.get("entities") or message.get("caption_entities") or ():
        start, end = int(entity["offset"]), int(entity["offset"]) + int(entity["length"])
        covered = units[2 * start : 2 * end].decode("utf-16-le", "replace")
        command, at, addressee = covered.partition("@")
        if _is_mention(entity, covered, bot):
            removed.append((start, end))
        elif entity["type"] == "bot_command" and at and bot.username:
            if addressee.lower() == bot.username.lower():
                removed.append((start + len(command), end))
            elif start == 0:
                for_other_bot = True
    if not removed:
        return text, False, for_other_bot
    for start, end in sorted(removed, reverse=True):
        before, after = units[: 2 * start], units[2 * end :]
        # A name between two spaces takes one of them along.
        units = before + after.removeprefix(_SPACE if before.endswith(_SPACE) else b"")
    return units.decode("utf-16-le", "replace").strip(), True, for_other_bot


def _in_words(message: Json) -> str:
    """Return what a place, a contact or a poll says, as text; empty for other messages."""
    if place := message.get("location"):
        venue = message.get("venue") or {}
        names = [str(venue[name]) for name in ("title", "address") if venue.get(name)]
        return ", ".join([*names, f"location {float(place['latitude'])}, {float(place['longitude'])}"])
    if contact := message.get("contact"):
        return f"Contact: {_person(contact)}, {contact['phone_number']}"
    if poll := message.get("poll"):
        return "\n".join([f"Poll: {poll['question']}", *(f"- {option['text']}" for option in poll["options"])])
    return ""


def _is_mention(entity: Json, text: str, bot: Bot) -> bool:
    if entity["type"] == "mention":
        return bool(bot.username) and text.lower() == f"@{bot.username}".lower()
    return entity["type"] == "text_mention" and str(entity.get("user", {}).get("id", "")) == bot.id


def _attachments(message: Json) -> tuple[Attachment, ...]:
    found = []
    if photos := message.get("photo"):
        found.append(_attachment(photos[-1], "image"))
    for key, kind in _FILES.items():
        if (file := message.get(key)) and not (key == "document" and "animation" in message):
            found.append(_attachment(file, kind))
    return tuple(found)


def _attachment(file: Json, kind: str) -> Attachment:
    name, mime_type, size = file.get("file_name") or file.get("emoji"), file.get("mime_type"), file.get("file_size")
    if not isinstance(file["file_id"], str) or not isinstance(size, int | None) or (size or 0) > _LARGEST_FILE:
        raise TypeError("the file is malformed")
    if not isinstance(name, str | None) or not isinstance(mime_type, str | None):
        raise TypeError("the name or type of the file is not a string")
    return Attachment(file["file_id"], kind, name, mime_type, size, auth="bot")


def _person(who: Json) -> str:
    full = f"{who.get('first_name') or ''} {who.get('last_name') or ''}".strip()
    return full or (f"@{who['username']}" if who.get("username") else "")


def _moment(seconds: Any) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
