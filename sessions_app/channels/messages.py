"""The data passed between channel adapters and the rest of Komand, as frozen dataclasses. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

COMMANDS = ("/new", "/stop", "/help", "/status", "/pair", "/start", "/approve", "/deny")


def is_command(text: str) -> bool:
    """Return whether the text begins with a command that every text channel has."""
    return text.split(maxsplit=1)[:1] in ([command] for command in COMMANDS)


@dataclass(frozen=True)
class Chat:
    """A chat of a platform. type: direct | group | channel. thread_id: a topic or thread in it, or empty."""

    id: str
    type: str = "direct"
    thread_id: str = ""


@dataclass(frozen=True)
class Attachment:
    """A file of a message, not fetched yet.

    id: the platform's, from which the adapter can fetch it.
    kind: image | audio | voice | video | file | sticker.
    url: its address, for platforms that send addresses.
    auth: the credentials to fetch it with: bot (the account's secret) | none.
    """

    id: str
    kind: str
    filename: str | None = None
    mime_type: str | None = None
    size_bytes: int | None = None
    url: str | None = None
    auth: str = "none"

    def as_json(self) -> dict[str, Any]:
        return {_ATTACHMENT_NAMES.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{name: data[_ATTACHMENT_NAMES.get(name, name)] for name in cls.__dataclass_fields__})


_ATTACHMENT_NAMES = {"mime_type": "mimeType", "size_bytes": "sizeBytes"}


@dataclass(frozen=True)
class ChannelMessage:
    """A message to us, or in a group that we are in.

    message_id: unique within the account.
    text: without the mention of our own name.
    keys: every id under which the platform may deliver it again.
    is_addressed: in a group, whether it is meant for us: it mentions us, replies to us or is a command.
    is_from_bot: no person wrote it.
    chat_title: the group's display name.
    event_id: the platform's id of this delivery of the message.
    album_id: the same for messages that people see as one, unique within the account.
    unreadable: its kind, if it has neither text nor files.
    metadata: stored with the message. reference: data beyond the ids that a reply needs, such as an address or a
        token of the platform. Both as JSON.
    """

    message_id: str
    sender_id: str
    sender_name: str
    text: str
    sent_at: datetime
    chat: Chat
    keys: tuple[str, ...]
    is_addressed: bool = True
    mentions_bot: bool = False
    is_from_bot: bool = False
    chat_title: str = ""
    reply_to_message_id: str = ""
    event_id: str = ""
    attachments: tuple[Attachment, ...] = ()
    album_id: str = ""
    unreadable: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reference: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ButtonPress:
    """A button press.

    action_id: of the `Button`. message_id: of the message with the button.
    press_id: identifies the press when it is acknowledged; see `Target.press_id`.
    keys: every id under which the platform may deliver it again.
    reference: data beyond the ids that the acknowledgement needs, as JSON.
    """

    action_id: str
    sender_id: str
    sender_name: str
    chat: Chat
    message_id: str
    press_id: str
    keys: tuple[str, ...]
    reference: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StopRequest:
    """A press of the platform's own stop button of a draft. draft_id: as given to `ChannelAdapter.draft`."""

    chat: Chat
    draft_id: int


@dataclass(frozen=True)
class ChatMoved:
    """A new id that the platform gave to a chat."""

    old_id: str
    new_id: str


@dataclass(frozen=True)
class ChatEvent:
    """An event to record about a chat, for example that it blocked us. It gets no reply. note: its code."""

    note: str
    chat: Chat
    sender_id: str
    sender_name: str
    keys: tuple[str, ...]
    sent_at: datetime


@dataclass(frozen=True)
class Ignored:
    """An event without effect. why: a code for the log."""

    why: str


ChannelEvent = ChannelMessage | ButtonPress | StopRequest | ChatMoved | ChatEvent | Ignored


@dataclass(frozen=True)
class Target:
    """The place that a message is sent to.

    reply_to: the platform's id of the message that it answers. press_id: the button press that it acknowledges.
    reference: that of the message or press, as its adapter returned it.
    """

    chat: Chat
    reply_to: str = ""
    press_id: str = ""
    reference: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "chat": self.chat.id,
            "type": self.chat.type,
            "thread": self.chat.thread_id,
            "reply_to": self.reply_to,
            "press": self.press_id,
            **({"reference": dict(self.reference)} if self.reference else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Target":
        chat = Chat(data["chat"], data["type"], data["thread"])
        return cls(chat, data.get("reply_to", ""), data.get("press", ""), data.get("reference") or {})


@dataclass(frozen=True)
class Rendered:
    """A part of a message, ready to send. text: plain. body: in the channel's dialect. filename: send it as a file."""

    text: str
    body: str
    filename: str = ""


@dataclass(frozen=True)
class Button:
    """A button below a message.

    action_id: at most `Capabilities.button_bytes` long; returned in `ButtonPress`. style: success | danger, or empty.
    """

    label: str
    action_id: str
    style: str = ""


@dataclass(frozen=True)
class Outgoing:
    """One message to send.

    key: our own id of it, the same at each try.
    kind: answer | failure | notice | approval | press (the acknowledgement of a button press).
    part: from 0, of `parts`.
    buttons: empty if the channel has none. An edited message loses those that are not given again.
    """

    key: str
    target: Target
    rendered: Rendered
    kind: str = "answer"
    part: int = 0
    parts: int = 1
    session_key: str = ""
    run_id: str = ""
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a channel in one kind of chat.

    drafts: native (the platform shows previews) | edit (a sent message is edited) | none.
    draft_seconds: the shortest time between two previews. draft_keep_seconds: the time after which the platform
        removes a preview, None if it does not.
    typing_seconds: the time that a typing indicator stays.
    button_bytes, max_buttons: limits of an action id and of the buttons of one message.
    file_bytes, file_in_bytes: limits of a file that is sent or received.
    max_text: the longest message, in `text_unit`: chars | utf16 (code units).
    proactive: when we may write first, for the documentation.
    dialect: the name of the text format, for the documentation.
    can_repeat: sending a message twice is harmless: receivers drop duplicates by `Outgoing.key`.
    pushes_back: the sender of a refused webhook request reads the refusal and retries.
    lifetime_seconds: a message that was not sent by then expires.
    retries: seconds before the second and later tries; empty: exponential back-off until the lifetime is over.
    send_seconds: the time that a call of the platform may take.
    chat_seconds: the shortest time between two messages in a chat. account_rate: messages a second of an account.
    """

    drafts: str = "none"
    draft_seconds: float = 1.0
    draft_keep_seconds: float | None = None
    typing: bool = False
    typing_seconds: float = 4.0
    buttons: bool = False
    button_bytes: int = 0
    max_buttons: int = 8
    attachments_in: bool = False
    attachments_out: bool = False
    file_bytes: int = 0
    file_in_bytes: int = 0
    max_text: int = 4000
    text_unit: str = "chars"
    edit_sent: bool = False
    threads: bool = False
    groups: bool = False
    proactive: str = "always"
    dialect: str = "plain"
    can_repeat: bool = False
    pushes_back: bool = False
    lifetime_seconds: float = 3600.0
    retries: tuple[float, ...] = ()
    send_seconds: float = 20.0
    chat_seconds: float = 0.0
    account_rate: float = 30.0
