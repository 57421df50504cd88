"""Parsing of Discord's events and interactions (https://docs.discord.com/developers/events/gateway-events). Pure."""

import re
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
    Ignored,
    MessageDeleted,
    MessageEdited,
    Quoted,
    Reaction,
    is_command,
)

Json = Mapping[str, Any]

PING, COMMAND, COMPONENT = 1, 2, 3  # types of interactions
ASK = "ask"  # the command with a message; the others are those of every text channel
_TEXT_OPTION = 3
_MESSAGE_TYPES = (0, 19)  # a message, a reply
_THREADS = (10, 11, 12)  # types of channels
_FORWARD = 1  # type of a reference
_EPOCH_MS = 1_420_070_400_000
_KINDS = ("image", "audio", "video")
_LARGEST_FILE = 2**53


@dataclass(frozen=True)
class Bot:
    """Our application.

    application_id, user_id: perhaps unknown.
    reads_all: in servers, answer every message.
    reads_content: ask for the texts of messages that do not mention us.
    role_ids: the roles that servers gave the bot as its own; the client offers their names beside the bot's.
    """

    application_id: str = ""
    user_id: str = ""
    reads_all: bool = False
    known_bots: frozenset[str] = frozenset()
    reads_content: bool = False
    role_ids: frozenset[str] = frozenset()


def read_event(kind: str, data: Any, bot: Bot) -> ChannelEvent:
    """Return the event of a dispatch of the Gateway. kind: its name."""
    reader = _READERS.get(kind)
    return _guarded(reader, data, bot) if reader else Ignored("unwanted_kind")


def read_interaction(data: Any, bot: Bot) -> ChannelEvent:
    """Return the event of an interaction: a slash command or a pressed button."""
    return _guarded(_read_interaction, data, bot)


def _guarded(reader: Callable[[Json, Bot], ChannelEvent], data: Any, bot: Bot) -> ChannelEvent:
    try:
        return reader(data, bot)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        return Ignored("odd_shape")


def _read_message(message: Json, bot: Bot) -> ChannelEvent:
    author = message["author"]
    if str(author["id"]) == bot.user_id:
        return Ignored("own_message")
    if message.get("webhook_id") or author.get("system") or message.get("type", 0) not in _MESSAGE_TYPES:
        return Ignored("service_message")
    if author.get("bot") and str(author["id"]) not in bot.known_bots:
        return Ignored("other_bot")
    text, mentions_us = _read_text(message, bot)
    replied = message.get("referenced_message") or {}
    replies = bool(bot.user_id) and str((replied.get("author") or {}).get("id", "")) == bot.user_id
    chat = _chat(message)
    native = _id(message["id"])
    return ChannelMessage(
        message_id=native,
        sender_id=_id(author["id"]),
        sender_name=_name(author, message.get("member")),
        text=text,
        sent_at=_moment(native),
        chat=chat,
        keys=(f"message:{native}",),
        is_addressed=chat.type == "direct" or bot.reads_all or mentions_us or replies or is_command(text),
        mentions_bot=mentions_us,
        mentions_others=any(str(user["id"]) != bot.user_id for user in message.get("mentions") or ()),
        thread_id=chat.id if message.get("channel_type") in _THREADS else "",
        quoted=tuple(_quoted(message, {bot.user_id, _id(author["id"])})),
        is_from_bot=bool(author.get("bot")),
        reply_to_message_id=str(replied.get("id") or ""),
        event_id=native,
        attachments=tuple(map(_attachment, (*(message.get("attachments") or ()), *_forwarded_files(message)))),
        unreadable="sticker" if message.get("sticker_items") else "",
        metadata={"guildId": message.get("guild_id")},
    )


def _quoted(message: Json, known: set[str]) -> Iterator[Quoted]:
    """Yield the answered message, or those that were forwarded, which have no author. known: ids of us, the sender."""
    if replied := message.get("referenced_message"):
        writer = replied.get("author") or {}
        is_known = str(writer.get("id", "")) in known
        yield Quoted(str(replied.get("content") or ""), "" if is_known else _name(writer, None), is_known=is_known)
    for forwarded in _forwarded(message):
        yield Quoted(str(forwarded.get("content") or ""), is_forward=True)


def _forwarded(message: Json) -> list[Json]:
    is_forward = (message.get("message_reference") or {}).get("type") == _FORWARD
    return [snapshot["message"] for snapshot in message.get("message_snapshots") or () if is_forward]


def _forwarded_files(message: Json) -> list[Json]:
    return [file for forwarded in _forwarded(message) for file in forwarded.get("attachments") or ()]


def _read_edit(message: Json, bot: Bot) -> ChannelEvent:
    author = message.get("author") or {}
    if not message.get("edited_timestamp") or author.get("bot") or "content" not in message:
        return Ignored("own_message")  # Discord also reports the previews of links
    return MessageEdited(f"message:{_id(message['id'])}", _id(author["id"]), _read_text(message, bot)[0])


def _read_deletion(message: Json, bot: Bot) -> ChannelEvent:
    return MessageDeleted(f"message:{_id(message['id'])}")


def _read_reaction(reaction: Json, bot: Bot, *, is_removed: bool = False) -> ChannelEvent:
    if str(reaction["user_id"]) == bot.user_id:
        return Ignored("own_message")
    emoji = str(reaction["emoji"].get("name") or "")
    return Reaction(_id(reaction["message_id"]), _id(reaction["user_id"]), _chat(reaction), emoji, is_removed)


def _read_interaction(data: Json, bot: Bot) -> ChannelEvent:
    if data["type"] == PING:
        return Ignored("handshake")
    if bot.application_id and str(data.get("application_id")) != bot.application_id:
        return Ignored("another_app")
    user, native, chat = (data.get("member") or data)["user"], _id(data["id"]), _chat(data)
    reference = {"interaction": native, "token": str(data["token"])}
    name = _name(user, data.get("member"))
    if data["type"] == COMPONENT:
        return ButtonPress(
            action_id=str(data["data"]["custom_id"]),
            sender_id=_id(user["id"]),
            sender_name=name,
            chat=chat,
            message_id=_id(data["message"]["id"]),
            press_id=native,
            keys=(f"interaction:{native}",),
            reference=reference,
        )
    if data["type"] != COMMAND:
        return Ignored("unwanted_kind")
    return ChannelMessage(
        message_id=f"interaction:{native}",
        sender_id=_id(user["id"]),
        sender_name=name,
        text=_command_text(data["data"]),
        sent_at=_moment(native),
        chat=chat,
        keys=(f"interaction:{native}",),
        mentions_bot=True,
        event_id=native,
        reference=reference,
        metadata={"guildId": data.get("guild_id")},
    )


_READERS: dict[str, Callable[[Json, Bot], ChannelEvent]] = {
    "MESSAGE_CREATE": _read_message,
    "MESSAGE_UPDATE": _read_edit,
    "MESSAGE_DELETE": _read_deletion,
    "MESSAGE_REACTION_ADD": _read_reaction,
    "MESSAGE_REACTION_REMOVE": lambda data, bot: _read_reaction(data, bot, is_removed=True),
    "INTERACTION_CREATE": _read_interaction,
}


def _command_text(command: Json) -> str:
    values = [str(option["value"]) for option in command.get("options") or () if option.get("type") == _TEXT_OPTION]
    return " ".join(values) if command["name"] == ASK else " ".join((f"/{command['name']}", *values))


def _chat(place: Json) -> Chat:
    """Return the chat: a channel or a thread of a server, or a conversation with the bot alone."""
    is_direct = place["context"] == 1 if "context" in place else "guild_id" not in place
    return Chat(_id(place["channel_id"]), "direct" if is_direct else "group")


def _read_text(message: Json, bot: Bot) -> tuple[str, bool]:
    """Return the text and whether it names us. Our name is cut out of it."""
    text = message.get("content") or ""
    names = [f"!?{re.escape(bot.user_id)}"] if bot.user_id else []
    names += [f"&{role_id}" for role_id in map(_id, message.get("mention_roles") or ()) if role_id in bot.role_ids]
    own = re.compile(f" ?<@(?:{'|'.join(names)})>")
    if not names or not own.search(text):
        return text, False
    return own.sub("", text).strip(), True


def _attachment(file: Json) -> Attachment:
    url, name, mime_type, size = file["url"], file.get("filename"), file.get("content_type"), file.get("size")
    if not isinstance(url, str) or not isinstance(name, str | None) or not isinstance(mime_type, str | None):
        raise TypeError("the file is malformed")
    if not isinstance(size, int | None) or (size or 0) > _LARGEST_FILE:
        raise TypeError("the size of the file is not a number")
    family = (mime_type or "").partition("/")[0]
    kind = "voice" if file.get("waveform") else family if family in _KINDS else "file"
    return Attachment(_id(file["id"]), kind, name, mime_type, size, url)


def _id(value: Any) -> str:
    """Return an id as text. It is a number of 64 bits, sent as text."""
    if not isinstance(value, str) or not (value.isascii() and value.isdecimal()):
        raise TypeError("an id is not a number")
    return value


def _name(user: Json, member: Json | None) -> str:
    names = ((member or {}).get("nick"), user.get("global_name"), user.get("username"))
    return next((str(name) for name in names if name), "")


def _moment(snowflake: str) -> datetime:
    return datetime.fromtimestamp(((int(snowflake) >> 22) + _EPOCH_MS) / 1000, UTC)
