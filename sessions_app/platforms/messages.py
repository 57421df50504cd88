"""The data passed between channel adapters and the rest of Komand, as frozen dataclasses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sessions_app.platforms.capabilities import Capabilities as Capabilities
from sessions_app.platforms.inbound_parts import Attachment as Attachment
from sessions_app.platforms.inbound_parts import Quoted as Quoted
from sessions_app.platforms.inbound_parts import uploaded_source as uploaded_source

_LONGEST_NAME = 200
COMMANDS = (
    *("/new", "/stop", "/agent", "/compact", "/help", "/status", "/pair", "/start", "/link", "/unlink"),
    *("/approve", "/deny", "/agents"),
)


def is_command(text: str) -> bool:
    """Return whether the text begins with a command that every text channel has."""
    return text.split(maxsplit=1)[:1] in ([command] for command in COMMANDS)


def clean_name(name: str) -> str:
    """Return a display name without unprintable characters, cut to the length that is stored."""
    return "".join(character for character in name if character.isprintable()).strip()[:_LONGEST_NAME]


@dataclass(frozen=True)
class Chat:
    """A chat of a platform.

    type: direct | group | channel.
    thread_id: a topic or thread in it, or empty.
    """

    id: str
    type: str = "direct"
    thread_id: str = ""


@dataclass(frozen=True)
class ChannelMessage:
    """A message to us, or in a group that we are in.

    message_id: unique within the account.
    text: without the mention of our own name.
    keys: every id under which the platform may deliver it again.
    is_addressed: in a group, whether it is meant for us: it mentions us, replies to us or is a command.
    mentions_others: it names other members.
    is_from_bot: no person wrote it.
    thread_id: the thread that it was written in; empty for the chat itself, also if an answer would open a thread.
    quoted: texts that it quotes or carries along.
    forwarded_from: the author of a text that the sender has forwarded, perhaps empty; None: it is the sender's own.
    chat_title: the group's display name.
    event_id: the platform's id of this delivery of the message.
    album_id: the same for messages that people see as one, unique within the account.
    unreadable: kind of the message, if it has neither text nor files.
    surroundings: lines about where it was written, which the sender's program reports: data from outside.
    metadata: stored with the message.
    copies: addresses that the sender wants the answer to go to, too; those that may write to the account are added to
        `copies` of the reference.
    reference: data beyond the ids that a reply needs, such as an address or a token of the platform. Both as JSON.
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
    mentions_others: bool = False
    is_from_bot: bool = False
    thread_id: str = ""
    quoted: tuple[Quoted, ...] = ()
    forwarded_from: str | None = None
    chat_title: str = ""
    reply_to_message_id: str = ""
    event_id: str = ""
    attachments: tuple[Attachment, ...] = ()
    album_id: str = ""
    unreadable: str = ""
    surroundings: str = ""
    copies: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reference: Mapping[str, Any] = field(default_factory=dict)

    @property
    def carries_others(self) -> bool:
        """True if it carries a text from another chat along."""
        return any(quoted.is_forward and quoted.text.strip() for quoted in self.quoted)

    @property
    def has_texts_of_others(self) -> bool:
        return bool(self.quoted or self.surroundings) or self.forwarded_from is not None

    @property
    def has_context(self) -> bool:
        """True if there may be more to it than its text: it was written in a group, or has texts of others."""
        return self.chat.type != "direct" or self.has_texts_of_others


@dataclass(frozen=True)
class ButtonPress:
    """A button press.

    message_id: id of the message with the button.
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
    """An event to record about a chat, for example that it blocked us. It gets no reply. note: code of the event."""

    note: str
    chat: Chat
    sender_id: str
    sender_name: str
    keys: tuple[str, ...]
    sent_at: datetime


@dataclass(frozen=True)
class DeliveryReport:
    """A report of the platform about a message of ours. May come again, late, and in any order.

    message_id: as returned by `ChannelAdapter.send`.
    state: delivered | read | failed.
    error: why it failed.
    """

    message_id: str
    state: str
    error: str = ""


@dataclass(frozen=True)
class MessageEdited:
    """A new text of a message that we received. key: one of the keys of the message."""

    key: str
    sender_id: str
    text: str


@dataclass(frozen=True)
class MessageDeleted:
    """The deletion of a message that we received. key: one of the keys of the message."""

    key: str


@dataclass(frozen=True)
class Reaction:
    """A reaction to a message of ours, or the removal of one.

    message_id: as returned by `ChannelAdapter.send`.
    emoji: the character, or a short name such as `thumbsup`.
    """

    message_id: str
    sender_id: str
    chat: Chat
    emoji: str
    is_removed: bool = False


@dataclass(frozen=True)
class ProfileChange:
    """A new display name of a sender."""

    sender_id: str
    sender_name: str


@dataclass(frozen=True)
class Ignored:
    """An event without effect. why: a code for the log."""

    why: str


@dataclass(frozen=True)
class OfAccount:
    """An event of another account of ours, for platforms that send the events of several accounts to one URL.

    value: that account's value of the setting `ChannelAdapter.routed_by`.
    """

    value: str
    event: "ChannelEvent"


ChannelEvent = (
    ChannelMessage
    | ButtonPress
    | StopRequest
    | ChatMoved
    | ChatEvent
    | DeliveryReport
    | MessageEdited
    | MessageDeleted
    | Reaction
    | ProfileChange
    | Ignored
    | OfAccount
)


@dataclass(frozen=True)
class Target:
    """The place that a message is sent to.

    reply_to: the platform's id of the message that it answers.
    press_id: the button press that it acknowledges.
    reference: reference of the message or press, as its adapter returned it.
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
    """A part of a message, as plain text and in the channel's dialect. filename: send it as a file."""

    text: str
    body: str
    filename: str = ""


@dataclass(frozen=True)
class Button:
    """A button below a message.

    action_id: at most `Capabilities.button_bytes` long; returned in `ButtonPress`.
    style: success | danger, or empty.
    """

    label: str
    action_id: str
    style: str = ""


@dataclass(frozen=True)
class OutgoingFile:
    """A file to send. name: without a folder.

    url: a link to it that expires, for platforms that fetch files; empty if the installation has no public address.
    """

    name: str
    media_type: str
    content: bytes = field(repr=False)
    url: str = field(default="", repr=False)


@dataclass(frozen=True)
class ToolStatus:
    """A tool call of an unfinished answer, with the id of its execution. state: running | completed | failed."""

    id: str
    tool: str
    state: str = "running"


@dataclass(frozen=True)
class Outgoing:
    """One message to send.

    key: our own id of it, the same at each try.
    kind: answer | step (a text before the answer) | failure | notice | approval | press (the
        acknowledgement of a button press).
    part: from 0, of `parts`.
    buttons: empty if the channel has none. An edited message loses those that are not given again.
    file: if set, send it, with the text of `rendered` beside it if there is any.
    is_draft: the answer is unfinished: edits with more text follow.
    tool_statuses: the tool calls of a draft, in order, if `Capabilities.tool_statuses`; the text may then be empty.
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
    file: OutgoingFile | None = None
    is_draft: bool = False
    tool_statuses: tuple[ToolStatus, ...] = ()
