"""The files of messages that a request contains. Pure."""

import hashlib
from collections.abc import Iterable

from agents_app.types import LoadedPart, Message


def files_of(messages: Iterable[Message]) -> tuple[LoadedPart, ...]:
    """Return the files of messages, in order."""
    return tuple(part for message in messages for part in message.parts if isinstance(part, LoadedPart))


def digest_of(files: Iterable[LoadedPart]) -> str:
    """Return the digest of files by which a repeated message is recognised."""
    return "\n".join(hashlib.sha256(file.data).hexdigest() for file in files)
