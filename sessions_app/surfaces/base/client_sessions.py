"""Sessions that a surface opens for the conversations of its clients, once for each name. Synchronous."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from agents_app.models import Agent
from agents_app.types import LoadedPart, Message
from sessions_app import services
from sessions_app.attachments import uploads
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import Attachment, Session, Turn
from sessions_app.surfaces.base.message_files import files_of

CHANNEL = "Api"  # whose sessions the chat page does not list


def thread_id_of(*names: str) -> str:
    """Return the last part of the key of the session that has these names. Hashed: session keys are short."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]


def find_session(user: User, thread_id: str) -> Session | None:
    """Return the user's session of that thread id, loaded with its agent."""
    key = SessionKey(CHANNEL, "default", str(user.pk), thread_id)
    return Session.objects.select_related("agent").filter(key=str(key), owner=user, deleted_at=None).first()


def open_session(
    user: User,
    agent_id: str,
    thread_id: str,
    history: Sequence[Message | Turn],
    metadata: dict[str, Any],
    *,
    agent: Agent | None = None,
    is_temporary: bool = False,
) -> Session:
    """Open a session with a history. Idempotent under the thread id, unless that is empty.

    agent: as for `services.open_session`.
    is_temporary: as for `services.open_session`.
    Raises what `services.open_session` and `services.import_history` raise.
    """
    if thread_id and (found := find_session(user, thread_id)):
        return found
    fields: dict[str, Any] = {"owner": user, "agent_id": agent_id, "channel": CHANNEL, "thread_id": thread_id}
    try:
        with uploaded_files(user, history) as files, transaction.atomic():
            session = services.open_session(**fields, agent=agent, metadata=metadata, is_temporary=is_temporary)
            services.import_history(session, history, files)
            return session
    except IntegrityError:  # the same request, sent concurrently
        found = find_session(user, thread_id)
        if found is None:
            raise
        return found


def upload_parts(user: User, files: Iterable[LoadedPart]) -> tuple[Attachment, ...]:
    """Store the files of a message. What is not sent then is deleted after a day."""
    return tuple(uploads.upload(user, file.name, file.data) for file in files)


@contextmanager
def uploaded_files(
    user: User, history: Sequence[Message] | Sequence[Message | Turn]
) -> Iterator[dict[int, tuple[UUID, ...]]]:
    """Store the files of a history, and yield their ids by the place of their message. The unsent ones are deleted.

    Enter it before a transaction: documents take seconds to be read.
    """
    stored = {
        place: upload_parts(user, files_of([message]))
        for place, message in enumerate(history)
        if isinstance(message, Message) and message.parts
    }
    with uploads.unsent_discarded([row for rows in stored.values() for row in rows]):
        yield {place: tuple(row.pk for row in rows) for place, rows in stored.items()}
