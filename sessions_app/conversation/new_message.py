"""A message on its way in: as its surface took it, checked, and what became of it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from django.contrib.auth.models import User

from agents_app.services import DEFAULT_OPTIONS
from agents_app.types import RunOptions
from audit_app.kernel import context
from audit_app.kernel.errors import InvalidInput
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import Session

LONGEST_TEXT = 10_000
LONGEST_KEY = 512  # as `Session.key` holds it


@dataclass(frozen=True)
class NewMessage:
    """A message as it came in. channel: spelled as in the sources; message_id: the sender's own, unique per account;
    note: what the surface that takes it in keeps beside it, told with the fact that it came, not to the model."""

    channel: str
    account_id: str
    sender_id: str
    sender_name: str
    text: str
    message_id: str = ""
    thread_id: str = ""
    author_id: str = ""  # who wrote it, where the sender of the session is a group
    note: Mapping[str, Any] | None = None

    @classmethod
    def into(cls, session: Session, text: str, *, message_id: str = "", note: Mapping[str, Any] | None = None) -> Self:
        """Return a message to an existing session, from that session's sender."""
        party = (session.channel, session.account_id, session.sender_id, session.sender_name)
        return cls(*party, text, message_id=message_id, note=note)

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.channel, self.account_id, self.sender_id, self.thread_id)


@dataclass(frozen=True)
class Accepted:
    """What became of a message: its turn and the run that answers it. ordinal: the run's place in the session."""

    session_id: UUID
    session_key: str
    turn_id: UUID
    run_id: UUID
    ordinal: int
    is_duplicate: bool = False


@dataclass(frozen=True)
class ValidatedMessage:
    """A checked message. key: unique over all callers, or None; digest: of what it says and where it goes."""

    inbound: NewMessage
    text: str
    owner: User | None
    key: str | None
    digest: str
    arrival: InboundRecord | None = None
    options: RunOptions = DEFAULT_OPTIONS

    @property
    def actor(self) -> str:
        author = self.inbound.author_id or self.inbound.sender_id
        return context.actor.get() if self.owner else f"sender:{self.inbound.channel}:{author}"


def validated(
    inbound: NewMessage,
    owner: User | None,
    session: Session | None,
    idempotency_key: str,
    arrival: InboundRecord | None,
    options: RunOptions,
    longest_text: int,
) -> ValidatedMessage:
    """The message that may be taken in. Raises InvalidInput (text_required, text_too_long, session_id_too_long)."""
    text = inbound.text.replace("\0", "").strip()
    if not text:
        raise InvalidInput("The message has no text.", code="text_required")
    if len(text) > longest_text:
        raise InvalidInput(
            f"The message has {len(text):,} characters; at most {longest_text:,} are allowed.", code="text_too_long"
        )
    where = session.key if session else str(inbound.key)  # the same before there is a session and after
    if len(where) > LONGEST_KEY:
        raise InvalidInput(
            f"Channel, account, sender and thread have {len(where)} characters when they are percent-encoded; at most "
            f"{LONGEST_KEY} are allowed.",
            code="session_id_too_long",
        )
    wishes = json.dumps(options.to_dict(), sort_keys=True) if options != DEFAULT_OPTIONS else ""
    digest = hashlib.sha256(f"{where}\0{text}{wishes}".encode()).hexdigest()
    return ValidatedMessage(
        inbound, text, owner, _scoped_key(inbound, owner, idempotency_key), digest, arrival, options
    )


def _scoped_key(inbound: NewMessage, owner: User | None, idempotency_key: str) -> str | None:
    """Keys of different callers never meet. Hashed, because a caller's key may be of any length."""
    if not idempotency_key:
        return None
    scope = f"user:{owner.pk}" if owner else f"{inbound.channel}:{inbound.account_id}"
    return hashlib.sha256(f"{scope}\0{idempotency_key}".encode()).hexdigest()
