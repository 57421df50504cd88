"""Activities of the Bot Framework: messages, pressed buttons, edits, deletions, reactions. Pure.

Every kind of activity must be taken: Teams stops sending to a bot that answers with errors.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import urlsplit

from sessions_app.platforms.adapters.teams.quotes import PLACEHOLDER, read_quotes
from sessions_app.platforms.messages import (
    Attachment,
    ButtonPress,
    ChannelEvent,
    ChannelMessage,
    Chat,
    Ignored,
    MessageDeleted,
    MessageEdited,
    Reaction,
    is_command,
)

Json = Mapping[str, Any]

FILE_INFO = "application/vnd.microsoft.teams.file.download.info"
OF_BOT = "bot:"
_TYPES = {"personal": "direct", "groupChat": "group", "channel": "group"}
_THREAD = ";messageid="
_FRACTION = re.compile(r"(\.\d{6})\d+")
_EMOJI = {"like": "👍", "heart": "❤️", "laugh": "😆", "surprised": "😮", "sad": "😢", "angry": "😠"}


@dataclass(frozen=True)
class Rules:
    """tenants: Microsoft 365 tenants whose users are accepted.
    reads_all: every message of a group is addressed to the bot.
    app_id: the bot's.
    """

    tenants: frozenset[str]
    reads_all: bool = False
    app_id: str = ""


def read_activity(activity: Json, rules: Rules, now: datetime) -> ChannelEvent:
    """Return the event of an activity. A malformed one is ignored."""
    try:
        return _read(activity, rules, now)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return Ignored("malformed")


def conversation_id(chat: Chat) -> str:
    """Return the id of a chat, or of a thread in a channel, as the service knows it."""
    return f"{chat.id}{_THREAD}{chat.thread_id}" if chat.thread_id else chat.id


def _read(activity: Json, rules: Rules, now: datetime) -> ChannelEvent:
    conversation, sender = activity["conversation"], activity["from"]
    tenant = (activity.get("channelData") or {}).get("tenant") or {}
    if not {tenant.get("id"), conversation.get("tenantId")} & rules.tenants:
        return Ignored("other_tenant")
    own_ids = (activity["recipient"]["id"], rules.app_id, f"28:{rules.app_id}")
    if sender.get("role") == "bot" or sender["id"] in own_ids:
        return Ignored("bot")
    chat, sender_id = _chat(conversation), _text(sender["id"])
    match activity["type"], activity.get("name"):
        case "message", _ if isinstance(activity.get("value"), dict) and not activity.get("text"):
            return _read_press(activity, activity["value"], chat)
        case "message", _:
            return _read_message(activity, chat, rules, now)
        case "invoke", "adaptiveCard/action":
            return _read_press(activity, activity["value"]["action"]["data"], chat)
        case "messageUpdate", _:
            text, _ = _read_text(activity)
            return MessageEdited(_key(chat, activity["id"]), sender_id, text)
        case "messageDelete", _:
            return MessageDeleted(_key(chat, activity["id"]))
        case "messageReaction", _:
            return _read_reaction(activity, chat, sender_id)
    return Ignored(f"type_{activity['type']}"[:50])


def _read_message(activity: Json, chat: Chat, rules: Rules, now: datetime) -> ChannelEvent:
    sender, (text, is_mentioned) = activity["from"], _read_text(activity)
    is_addressed = chat.type == "direct" or is_mentioned or rules.reads_all or is_command(text)
    return ChannelMessage(
        message_id=_key(chat, activity["id"]).removeprefix("message:"),
        sender_id=_text(sender["id"]),
        sender_name=str(sender.get("name") or ""),
        text=text,
        sent_at=_moment(activity.get("timestamp"), now),
        chat=chat,
        keys=(_key(chat, activity["id"]),),
        is_addressed=is_addressed,
        mentions_bot=is_mentioned,
        mentions_others=_names_others(activity),
        thread_id=chat.thread_id,
        quoted=tuple(read_quotes(activity, {activity["recipient"]["id"], sender["id"]})),
        chat_title=str(activity["conversation"].get("name") or ""),
        reply_to_message_id=str(activity.get("replyToId") or ""),
        event_id=_text(activity["id"]),
        attachments=tuple(_attachments(activity)),
        metadata={"directoryId": sender.get("aadObjectId"), "locale": activity.get("locale")},
        reference=_reference(activity),
    )


def _read_press(activity: Json, data: Any, chat: Chat) -> ChannelEvent:
    sender, press_id = activity["from"], _text(activity["id"])
    return ButtonPress(
        action_id=_text(data["actionId"]),
        sender_id=_text(sender["id"]),
        sender_name=str(sender.get("name") or ""),
        chat=chat,
        message_id=str(activity.get("replyToId") or ""),
        press_id=press_id,
        keys=(f"press:{chat.id}:{press_id}",),
        reference=_reference(activity),
    )


def _read_reaction(activity: Json, chat: Chat, sender_id: str) -> ChannelEvent:
    is_removed = not activity.get("reactionsAdded")
    [reaction, *_] = activity["reactionsRemoved"] if is_removed else activity["reactionsAdded"]
    kind = _text(reaction["type"])
    return Reaction(_text(activity["replyToId"]), sender_id, chat, _EMOJI.get(kind, kind), is_removed=is_removed)


def _reference(activity: Json) -> dict[str, str]:
    """Return what a message to this conversation needs. The service address was verified with the request."""
    return {
        "serviceUrl": _text(activity["serviceUrl"]).rstrip("/"),
        "botId": _text(activity["recipient"]["id"]),
        "userId": _text(activity["from"]["id"]),
        "activityId": _text(activity["id"]),
    }


def _chat(conversation: Json) -> Chat:
    chat_id, _, thread = _text(conversation["id"]).partition(_THREAD)
    kind = conversation.get("conversationType") or ("groupChat" if conversation.get("isGroup") else "personal")
    return Chat(chat_id, _TYPES.get(kind, "group"), thread)


def _key(chat: Chat, activity_id: Any) -> str:
    return f"message:{conversation_id(chat)}:{_text(activity_id)}"


def _read_text(activity: Json) -> tuple[str, bool]:
    """Return the text without our mention, and whether there was one."""
    text, us, is_mentioned = _text(activity.get("text") or ""), activity["recipient"]["id"], False
    for entity in activity.get("entities") or ():
        if isinstance(entity, dict) and entity.get("type") == "mention" and entity["mentioned"]["id"] == us:
            is_mentioned, name = True, re.escape(_text(entity["mentioned"].get("name") or ""))
            shown = re.escape(_text(entity.get("text") or "")) or f"<at[^>]*>{name or '[^<]*'}</at>"
            text = re.sub(f"{shown} ?", "", text, count=1)
    text = PLACEHOLDER.sub("", text)
    text = unescape(text).replace("\xa0", " ").replace("\0", "")
    return (text.strip() if is_mentioned else text), is_mentioned


def _names_others(activity: Json) -> bool:
    us, entities = activity["recipient"]["id"], activity.get("entities") or ()
    mentions = (entity for entity in entities if isinstance(entity, dict) and entity.get("type") == "mention")
    return any(entity["mentioned"]["id"] != us for entity in mentions)


def _attachments(activity: Json) -> list[Attachment]:
    """Return the files. `text/html` is Teams' own rendering of the text."""
    found, service = [], urlsplit(_text(activity["serviceUrl"]))
    for number, item in enumerate(activity.get("attachments") or ()):
        kind, name = _text(item.get("contentType") or ""), item.get("name")
        name = name if isinstance(name, str) else None
        if kind == FILE_INFO:
            url = _text(item["content"]["downloadUrl"])
            found.append(Attachment(str(number), "file", name, url=url))
        elif kind.startswith("image/"):
            url = _text(item["contentUrl"])
            is_ours = (urlsplit(url).scheme, urlsplit(url).netloc) == (service.scheme, service.netloc)
            mime_type = None if kind == "image/*" else kind
            if is_ours:  # to be fetched with our token
                found.append(Attachment(f"{OF_BOT}{url}", "image", name, mime_type, auth="bot"))
            else:
                found.append(Attachment(str(number), "image", name, mime_type, url=url))
    return found


def _moment(value: Any, now: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(_FRACTION.sub(r"\1", value))
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, TypeError):
        return now


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value
