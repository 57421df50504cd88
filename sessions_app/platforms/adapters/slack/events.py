"""Parsing of Slack's payloads (https://docs.slack.dev/apis/events-api, …/interactivity). Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sessions_app.platforms.messages import (
    COMMANDS,
    Attachment,
    ButtonPress,
    ChannelEvent,
    ChannelMessage,
    Chat,
    Ignored,
    MessageDeleted,
    MessageEdited,
    OfAccount,
    ProfileChange,
    Quoted,
    Reaction,
    is_command,
)

Json = Mapping[str, Any]

_GONE = ("tombstone", "hidden_by_limit")  # modes of files
_SUBTYPES = ("", "file_share", "thread_broadcast", "me_message")
_SYSTEM_USERS = ("USLACK", "USLACKBOT")
_REFERENCE = re.compile(r"<([^<>]*)>")
_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")
_KINDS = ("image", "audio", "video")
_LARGEST_FILE = 2**53


@dataclass(frozen=True)
class Bot:
    """Our app in one workspace, or in an organisation.

    app_id, user_id: perhaps unknown.
    team_id: the workspace's or the organisation's, perhaps unknown.
    known_bots: ids of bots that may write.
    """

    app_id: str = ""
    team_id: str = ""
    user_id: str = ""
    known_bots: frozenset[str] = frozenset()


def read_payload(payload: Any, bot: Bot, now: datetime) -> ChannelEvent:
    """Return the event of a payload of the Events API, of interactivity or of a slash command."""
    try:
        if payload.get("type") in ("url_verification", "app_rate_limited") or "ssl_check" in payload:
            return Ignored(str(payload.get("type") or "ssl_check"))
        if bot.app_id and payload.get("api_app_id", "") != bot.app_id:
            return Ignored("another_app")
        installs = _installs_of(payload)
        if not bot.team_id or not installs or bot.team_id in installs:
            return _read(payload, bot, now)
        return OfAccount(installs[0], _read(payload, replace(bot, team_id=installs[0], user_id=""), now))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        return Ignored("odd_shape")


def _read(payload: Json, bot: Bot, now: datetime) -> ChannelEvent:
    if "command" in payload:
        return _read_command(payload, now)
    if payload["type"] == "block_actions":
        return _read_press(payload, now)
    reader = _READERS.get(payload["event"]["type"]) if payload["type"] == "event_callback" else None
    return reader(payload, payload["event"], bot) if reader else Ignored("unwanted_kind")


def decode(text: str) -> str:
    """Return a text of Slack without its escapes: references as words, links as Markdown."""
    shown = _REFERENCE.sub(lambda match: _shown(match[1]), text)
    return shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def name_of(user: Json) -> str:
    """Return the display name of a user object."""
    profile = user.get("profile") or {}
    return str(profile.get("display_name") or profile.get("real_name") or user.get("real_name") or "")


def _installs_of(payload: Json) -> list[str]:
    """Return the ids of the workspace and the organisation that the payload is for, that of the install first.

    In channels shared by workspaces, an event names the workspace that it came from, and its authorization the install.
    """
    [install, *_] = payload.get("authorizations") or [payload]
    is_org = install.get("is_enterprise_install") in (True, "true")
    kinds = ("enterprise", "team") if is_org else ("team", "enterprise")
    ids = [install.get(f"{kind}_id") or (install.get(kind) or {}).get("id") for kind in kinds]
    return [str(found) for found in ids if found]


def _read_message(payload: Json, event: Json, bot: Bot) -> ChannelEvent:
    subtype = event.get("subtype") or ""
    own_id = _own_id(payload, bot)
    if subtype == "message_changed":
        return _read_edit(event, own_id)
    if subtype == "message_deleted":
        return MessageDeleted(f"message:{event['channel']}:{event['deleted_ts']}")
    if subtype not in _SUBTYPES or event.get("hidden"):
        return Ignored("service_message")
    sender = event.get("user") or event.get("bot_id")
    if sender in (None, own_id) or sender in _SYSTEM_USERS:
        return Ignored("own_message" if sender == own_id and sender else "no_sender")
    is_from_bot = "bot_id" in event
    if is_from_bot and not bot.known_bots & {event["bot_id"], sender}:
        return Ignored("other_bot")
    text, names_us = _read_text(event, own_id)
    chat = _chat(event["channel"], event.get("channel_type", ""), event["ts"], event.get("thread_ts"))
    replies = bool(own_id) and event.get("parent_user_id") == own_id
    native = f"{event['channel']}:{event['ts']}"
    keys = [f"event:{payload['event_id']}", f"message:{native}"]
    if event.get("client_msg_id"):
        keys.append(f"client:{event['client_msg_id']}")
    return ChannelMessage(
        message_id=native,
        sender_id=str(sender),
        sender_name="",
        text=text,
        sent_at=datetime.fromtimestamp(int(event["ts"].partition(".")[0]), UTC),
        chat=chat,
        keys=tuple(keys),
        is_addressed=chat.type == "direct" or names_us or replies or is_command(text),
        mentions_bot=names_us,
        mentions_others=any(user != own_id for user in _MENTION.findall(event.get("text") or "")),
        is_from_bot=is_from_bot,
        thread_id=event.get("thread_ts") or "",
        quoted=tuple(_shared(event, {own_id, sender})),
        reply_to_message_id=f"{event['channel']}:{event['thread_ts']}" if event.get("thread_ts") else "",
        event_id=str(payload["event_id"]),
        attachments=tuple(_attachment(file) for file in event.get("files") or () if file.get("mode") not in _GONE),
        metadata={"teamId": payload.get("team_id"), "isExternal": bool(payload.get("is_ext_shared_channel"))},
        reference={"userId": str(sender), "teamId": str(event.get("user_team") or payload.get("team_id") or "")},
    )


def _shared(event: Json, known: set[Any]) -> Iterator[Quoted]:
    """Yield the messages that were shared with the message, or that it has links to. known: ids of us, the sender."""
    for item in event.get("attachments") or ():
        if item.get("is_share") or item.get("is_msg_unfurl"):
            is_here = item.get("channel_id") == event["channel"]
            is_known = is_here and item.get("author_id") in known
            author = "" if is_known else str(item.get("author_name") or item.get("author_subname") or "")
            text = decode(str(item.get("text") or item.get("fallback") or ""))
            yield Quoted(text, author, is_known=is_known, is_forward=not is_here)


def _read_edit(event: Json, own_id: str) -> ChannelEvent:
    message = event["message"]
    if message.get("bot_id") or message.get("user") in (None, own_id) or not message.get("edited"):
        return Ignored("own_message")  # Slack also reports the edits of our answers, and previews of links
    text, _ = _read_text(message, own_id)
    return MessageEdited(f"message:{event['channel']}:{message['ts']}", str(message["user"]), text)


def _read_reaction(payload: Json, event: Json, bot: Bot) -> ChannelEvent:
    item = event["item"]
    if item.get("type") != "message" or event["user"] == _own_id(payload, bot):
        return Ignored("unwanted_kind")
    chat = _chat(item["channel"], "", item["ts"], None)
    removed = event["type"] == "reaction_removed"
    return Reaction(str(item["ts"]), str(event["user"]), chat, str(event["reaction"]), removed)


def _read_profile(payload: Json, event: Json, bot: Bot) -> ChannelEvent:
    return ProfileChange(str(event["user"]["id"]), name_of(event["user"]))


_READERS: dict[str, Callable[[Json, Json, Bot], ChannelEvent]] = {
    "message": _read_message,
    "app_mention": _read_message,
    "reaction_added": _read_reaction,
    "reaction_removed": _read_reaction,
    "user_change": _read_profile,
}


def _read_press(payload: Json, now: datetime) -> ChannelEvent:
    action, place, user = payload["actions"][0], payload["container"], payload["user"]
    chat = _chat(place["channel_id"], "", place["message_ts"], place.get("thread_ts"))
    trigger = f"{payload['trigger_id']}:{action.get('action_ts', '')}"
    return ButtonPress(
        action_id=str(action["value"]),
        sender_id=str(user["id"]),
        sender_name=str(user.get("name") or user.get("username") or ""),
        chat=chat,
        message_id=f"{place['channel_id']}:{place['message_ts']}",
        press_id=trigger,
        keys=(f"press:{trigger}",),
        reference=_response_address(payload, now),
    )


def _read_command(form: Json, now: datetime) -> ChannelEvent:
    """Return the message that follows a slash command of ours: Slack keeps `/new` and the like to itself."""
    text = decode(form.get("text", "")).strip()
    if f"/{text.split(maxsplit=1)[0] if text else 'help'}" in COMMANDS:
        text = f"/{text or 'help'}"
    channel, trigger = form["channel_id"], form["trigger_id"]
    is_direct = channel.startswith("D")
    return ChannelMessage(
        message_id=f"command:{trigger}",
        sender_id=form["user_id"],
        sender_name=form.get("user_name", ""),
        text=text,
        sent_at=now,
        chat=Chat(channel, "direct" if is_direct else "group"),
        keys=(f"command:{trigger}",),
        mentions_bot=True,
        event_id=trigger,
        metadata={"teamId": form.get("team_id")},
        reference=_response_address(form, now),
    )


def _response_address(payload: Json, now: datetime) -> dict[str, Any]:
    """Return the address at which the person can be answered, and until when: Slack takes replies for 30 minutes."""
    until = int((now + timedelta(minutes=29)).timestamp())
    return {"response_url": str(payload.get("response_url") or ""), "respond_until": until}


def receipt_of(event: ChannelEvent) -> dict[str, str] | None:
    """Return the reply to a slash command that only its person sees, at once. Commands of ours are answered as fast."""
    if not isinstance(event, ChannelMessage) or "respond_until" not in event.reference or is_command(event.text):
        return None
    return {"response_type": "ephemeral", "text": "I am on it. Where I am not a member, only you see my answer."}


def _own_id(payload: Json, bot: Bot) -> str:
    """Return the id of our bot's user."""
    for authorization in payload.get("authorizations") or ():
        if authorization.get("is_bot"):
            return str(authorization["user_id"])
    return bot.user_id


def _chat(channel: str, kind: str, ts: str, thread_ts: str | None) -> Chat:
    """Return the chat. In a channel, an answer opens a thread below the message, which is the session's."""
    if not isinstance(channel, str) or not isinstance(ts, str) or not isinstance(thread_ts, str | None):
        raise TypeError("an id is not a text")
    if kind == "im" or (not kind and channel.startswith("D")):
        return Chat(channel, "direct", thread_ts or "")
    return Chat(channel, "group", thread_ts or ts)


def _read_text(message: Json, own_id: str) -> tuple[str, bool]:
    """Return the text and whether it names us. Our name is cut out of it."""
    text = message.get("text") or ""
    own = re.compile(rf" ?<@{re.escape(own_id)}(?:\|[^>]*)?>") if own_id else None
    if own is None or not own.search(text):
        return decode(text), False
    return decode(own.sub("", text)).strip(), True


def _shown(reference: str) -> str:
    target, _, label = reference.partition("|")
    if target.startswith(("@", "#")):
        return f"{target[0]}{label.lstrip('@#') or target[1:]}"
    if target.startswith("!subteam^"):
        return label or "@group"
    if target.startswith("!date^"):
        return label
    if target.startswith("!"):
        return f"@{target[1:]}"
    return f"[{label}]({target})" if label and label != target else target


def _attachment(file: Json) -> Attachment:
    url = file.get("url_private_download") or file.get("url_private") or ""
    name, mime_type, size = file.get("name"), file.get("mimetype"), file.get("size")
    if not isinstance(url, str) or not isinstance(name, str | None) or not isinstance(mime_type, str | None):
        raise TypeError("the file is malformed")
    if not isinstance(size, int | None) or (size or 0) > _LARGEST_FILE:
        raise TypeError("the size of the file is not a number")
    family = (mime_type or "").partition("/")[0]
    kind = "voice" if file.get("subtype") == "slack_audio" else family if family in _KINDS else "file"
    return Attachment(str(file["id"]), kind, name, mime_type, size, url, "bot")
