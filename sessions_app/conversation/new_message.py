"""A message at its three stages: as a surface or channel passes it on, validated, and accepted."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from django.contrib.auth.models import User

from agents_app.services import DEFAULT_OPTIONS
from agents_app.types import RunOptions
from audit_app.kernel import context
from audit_app.kernel.errors import Conflict, InvalidInput
from sessions_app.conversation.branches import Replacement
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.message_context import MessageContext
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import Attachment, Session
from sessions_app.platforms.sender_actors import sender_actor
from tools_app.schema import without_nul
from tools_app.types.authors import PERSON, Author

LONGEST_TEXT = 10_000
LONGEST_KEY = 512  # as `Session.key` holds it


@dataclass(frozen=True)
class NewMessage:
    """A message as a surface or a channel passes it on.

    channel: the registered name, such as `WebChat`.
    message_id: the sender's own id of it, unique per account.
    thread_id: the last part of the session's key, or empty.
    author_id: the person who wrote it, if the session's sender is a group.
    note: data of the surface, stored with the event `message.received`. The model does not see it.
    arrival: the record of a channel's message, stored in the same transaction.
    attachments: ids of files that the message's owner has uploaded, in order. A message with files may have no text.
    attachments_digest: digest of the content, if a repetition of the message has other ids.
    context: who has written it, and texts of others that belong to it, for the model.
    author: of the text, if it is not the sender's own.
    """

    channel: str
    account_id: str
    sender_id: str
    sender_name: str
    text: str
    message_id: str = ""
    thread_id: str = ""
    author_id: str = ""
    note: Mapping[str, Any] | None = None
    arrival: InboundRecord | None = None
    attachments: tuple[UUID, ...] = ()
    attachments_digest: str = ""
    context: MessageContext | None = None
    author: Author = PERSON

    @classmethod
    def into(cls, session: Session, text: str, **more: Any) -> Self:
        """Return a message to an existing session, from that session's sender. more: further fields."""
        return cls(session.channel, session.account_id, session.sender_id, session.sender_name, text, **more)

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.channel, self.account_id, self.sender_id, self.thread_id)


class QuestionClosed(Conflict):
    """This question is not open: it was answered, has expired or was withdrawn."""

    code = "question_closed"


@dataclass(frozen=True)
class ReceiveOptions:
    """Conditions under which a message is received.

    busy: what to do if the session has an open run. `queue`: wait in line. `reject`: raise RunBusy. `interrupt`: stop
        the open runs and keep their text. `steer`: join the open run. Empty: as the agent is configured.
    run: what the message asks of its run.
    longest_text: in characters.
    denied_tools: patterns of tool calls that the run may not make.
    act: called with the result in the transaction that stores the message; not called for a duplicate.
    may_answer: the message may be the answer to a question that a run waits for.
    answers: the id of that question, if the message answers no other. Raises QuestionClosed if it is not open.
    replaces: begin a branch in place of this message, with its files. Raises RunBusy while a run is open.
    metadata: metadata of a session that is created for the message.
    """

    busy: str = ""
    run: RunOptions = DEFAULT_OPTIONS
    longest_text: int = LONGEST_TEXT
    denied_tools: Sequence[str] = ()
    act: Callable[["Accepted"], None] | None = None
    may_answer: bool = True
    answers: UUID | None = None
    replaces: Replacement | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Accepted:
    """A stored message: its user turn and the run that answers it.

    ordinal: the run's place in the session.
    is_duplicate: it had been stored before.
    created_at: of the run, if this call has stored it.
    """

    session_id: UUID
    session_key: str
    turn_id: UUID
    run_id: UUID
    ordinal: int
    is_duplicate: bool = False
    created_at: datetime | None = None


@dataclass(frozen=True)
class ValidatedMessage:
    """A message that may be stored.

    owner: the user it acts for, or None for a channel's sender.
    key: the idempotency key, unique over all callers, or None.
    digest: digest of its text, its session, what it asks of its run, and its files.
    files: the uploaded files, once they are in the session.
    attached: their text for the model.
    """

    inbound: NewMessage
    text: str
    owner: User | None
    key: str | None
    digest: str
    options: ReceiveOptions
    files: tuple[Attachment, ...] = ()
    attached: str = ""

    @property
    def arrival(self) -> InboundRecord | None:
        return self.inbound.arrival

    @property
    def actor(self) -> str:
        author = self.inbound.author_id or self.inbound.sender_id
        if self.owner:
            return context.actor.get()
        return sender_actor(self.inbound.channel, self.inbound.account_id, author)


def validated(
    inbound: NewMessage, owner: User | None, session: Session | None, idempotency_key: str, options: ReceiveOptions
) -> ValidatedMessage:
    """Check a message. Raises InvalidInput (text_required, text_too_long, session_id_too_long, nul_character)."""
    text = inbound.text.replace("\0", "").strip()
    if not text and not inbound.attachments:
        raise InvalidInput("The message has no text.", code="text_required")
    if len(text) > options.longest_text:
        problem = f"The message has {len(text):,} characters; at most {options.longest_text:,} are allowed."
        raise InvalidInput(problem, code="text_too_long")
    where = session.key if session else str(inbound.key)  # the same before there is a session and after
    if len(where) > LONGEST_KEY:
        raise InvalidInput(
            f"Channel, account, sender and thread have {len(where)} characters when they are percent-encoded; at most "
            f"{LONGEST_KEY} are allowed.",
            code="session_id_too_long",
        )
    requested = json.dumps(options.run.to_dict(), sort_keys=True) if options.run != DEFAULT_OPTIONS else ""
    if requested and without_nul(requested) != requested:
        problem = "The options of the message contain a NUL character, which cannot be stored. Remove it."
        raise InvalidInput(problem, code="nul_character")
    replaced = f"\0{options.replaces}" if options.replaces else ""
    names = (inbound.attachments_digest,) if inbound.attachments_digest else inbound.attachments
    files = "".join(f"\0{name}" for name in names)
    digest = hashlib.sha256(f"{where}\0{text}{requested}{replaced}{files}".encode()).hexdigest()
    return ValidatedMessage(inbound, text, owner, _scoped_key(inbound, owner, idempotency_key), digest, options)


def _scoped_key(inbound: NewMessage, owner: User | None, idempotency_key: str) -> str | None:
    """Return the key as it is stored, None if there is none."""
    if not idempotency_key:
        return None
    return scoped_key(f"user:{owner.pk}" if owner else f"{inbound.channel}:{inbound.account_id}", idempotency_key)


def scoped_key(scope: str, idempotency_key: str) -> str:
    """Return an idempotency key as it is stored: prefixed by its caller, and hashed since it may be of any length."""
    return hashlib.sha256(f"{scope}\0{idempotency_key}".encode()).hexdigest()
