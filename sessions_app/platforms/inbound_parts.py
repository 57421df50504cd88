"""The files of channel messages, and the texts that they quote or carry along. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self
from uuid import UUID


@dataclass(frozen=True)
class Attachment:
    """A file of a message, not fetched yet.

    id: the platform's, from which the adapter can fetch it.
    kind: image | audio | voice | video | file | sticker.
    url: address of the file, for platforms that send addresses.
    auth: the credentials to fetch it with: bot (the account's secret) | none; stored: it was uploaded to us before, and
        `id` is the source of its row.
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


def uploaded_source(sender_id: str, upload_id: UUID) -> str:
    """Return the source of a file that a sender has uploaded to us. Only messages of that sender can have it."""
    return f"{sender_id}/{upload_id}"


@dataclass(frozen=True)
class Quoted:
    """A text that a message quotes, or carries along, and that is no part of its own text.

    text: empty if the platform sends ids alone; then the stored message is looked up.
    author: display name, perhaps empty.
    key: one of the keys of the message, if we may have received it.
    message_id: as returned by `ChannelAdapter.send`, if we may have sent it.
    is_known: we, or the sender of the message, have written it in the same chat.
    is_forward: it comes from another chat.
    """

    text: str = ""
    author: str = ""
    key: str = ""
    message_id: str = ""
    is_known: bool = False
    is_forward: bool = False
