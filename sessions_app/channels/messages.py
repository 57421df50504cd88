"""What channels and the rest of Komand say to each other, as frozen data. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

COMMANDS = ("/new", "/stop", "/help", "/status", "/pair", "/start", "/approve", "/deny")


def is_command(text: str) -> bool:
    """Whether the text begins with a command that every text channel knows."""
    return text.split(maxsplit=1)[:1] in ([command] for command in COMMANDS)


@dataclass(frozen=True)
class Chat:
    """A place where people write. type: direct | group | channel; thread_id: a topic or thread of it, or empty."""

    id: str
    type: str = "direct"
    thread_id: str = ""


@dataclass(frozen=True)
class Attachment:
    """A file that came with a message; not fetched. kind: image | audio | voice | video | file | sticker; url: where
    it is, when the id does not tell; auth: bot (with the account's secret) | none."""

    id: str
    kind: str
    filename: str | None = None
    mime_type: str | None = None
    size_bytes: int | None = None
    url: str | None = None
    auth: str = "none"


@dataclass(frozen=True)
class ChannelMessage:
    """A message that somebody wrote. message_id: unique within the account; keys: by which the platform may repeat it;
    chat_title: what people call the group.

    is_addressed: in a group, whether it is meant for us (mention, reply to us, command); text: what the person wrote,
    without our own mention; is_from_bot: no person wrote it; album_id: the same for messages that people see as one,
    unique within the account; unreadable: what it is, when it has neither words nor files; reference: what an answer
    needs beyond the ids, such as an address or a token of the platform's, as JSON.
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
    """A pressed button. press_id: names the press when it is acknowledged; message_id: the message with the button;
    reference: what acknowledging it needs beyond the ids, as JSON."""

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
    """Somebody pressed the platform's own stop button of a draft, which is named as it was when it was shown."""

    chat: Chat
    draft_id: int


@dataclass(frozen=True)
class ChatMoved:
    """The platform gave a chat another id."""

    old_id: str
    new_id: str


@dataclass(frozen=True)
class ChatEvent:
    """Something to put on record about a chat, say that it blocked us; nobody answers it."""

    note: str
    chat: Chat
    sender_id: str
    sender_name: str
    keys: tuple[str, ...]
    sent_at: datetime


@dataclass(frozen=True)
class Ignored:
    """Nothing for us. why: for the log."""

    why: str


ChannelEvent = ChannelMessage | ButtonPress | StopRequest | ChatMoved | ChatEvent | Ignored


@dataclass(frozen=True)
class Target:
    """Where something goes. reply_to: the platform's id of the message it answers; press_id: the press it answers;
    reference: as the adapter gave it with that message or press."""

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
    """A piece of text ready to send. text: as plain text; body: in the channel's dialect; filename: send it as a file
    of that name instead."""

    text: str
    body: str
    filename: str = ""


@dataclass(frozen=True)
class Button:
    """What can be pressed below a message. action_id: at most `Capabilities.button_bytes`, comes back in a
    `ButtonPress`; style: success | danger, or empty."""

    label: str
    action_id: str
    style: str = ""


@dataclass(frozen=True)
class Outgoing:
    """One message to send. key: our own id of it, the same at each try; kind: answer | failure | notice | approval |
    press; buttons: where the channel has them; a message that is edited loses those that are not given again."""

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
    """What a channel can do in one kind of chat. Intervals and lifetimes in seconds; limits in `text_unit`.

    drafts: native (the platform shows previews) | edit (a sent message is edited) | none; can_repeat: sending the same
    message twice does no harm; pushes_back: the sender of a refused message tries again by itself; retries: pauses
    before the second and later tries (empty: growing ones until the lifetime is over).
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
