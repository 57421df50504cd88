"""The capabilities of a channel, by which the gateway decides what to send there and how. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a channel in one kind of chat.

    drafts: native (the platform shows previews) | edit (a sent message is edited) | multi_message (the texts before
        each round of tool calls are sent as messages of their own, the answer leaves them out) | none.
    draft_seconds: the shortest time between two previews.
    draft_keep_seconds: the time after which the platform removes a preview, None if it does not.
    tool_statuses: drafts that are edited show tool calls; see `Outgoing.tool_statuses`.
    typing_seconds: the time that a typing indicator stays.
    button_bytes, max_buttons: limits of an action id and of the buttons of one message.
    file_bytes, file_in_bytes: limits of a file that is sent or received. Longer files are sent as links.
    file_types: media types of the files that are sent, others as links; empty: all.
    max_text: the longest message, in `text_unit`: chars | utf16 (code units).
    most_parts: messages of one text; in place of the others, a link to the whole answer is sent. 0: any number.
    proactive: when we may write first, for the documentation.
    dialect: the name of the text format, for the documentation.
    can_repeat: sending a message twice is harmless: receivers drop duplicates by `Outgoing.key`.
    pushes_back: the sender of a refused webhook request reads the refusal and retries.
    lifetime_seconds: a message that was not sent by then expires.
    retries: seconds before the second and later tries; empty: exponential back-off until the lifetime is over.
    send_seconds: the time that a call of the platform may take.
    chat_seconds: the shortest time between two messages in a chat.
    account_rate: messages a second of an account.
    """

    drafts: str = "none"
    draft_seconds: float = 1.0
    draft_keep_seconds: float | None = None
    tool_statuses: bool = False
    typing: bool = False
    typing_seconds: float = 4.0
    buttons: bool = False
    button_bytes: int = 0
    max_buttons: int = 8
    attachments_in: bool = False
    attachments_out: bool = False
    file_bytes: int = 0
    file_types: tuple[str, ...] = ()
    file_in_bytes: int = 0
    max_text: int = 4000
    text_unit: str = "chars"
    most_parts: int = 0
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
