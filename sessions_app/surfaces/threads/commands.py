"""What clients do with threads, synchronously: open, change, delete, and write messages into them.

A thread is a session of its user; those of the chat page are threads too.
"""

import hashlib
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from agents_app.types import RunOptions
from audit_app.kernel.errors import Conflict, Forbidden, InvalidInput, NotFound
from audit_app.kernel.shorten import shorten
from sessions_app import services
from sessions_app.access import access_agent, access_session
from sessions_app.conversation import notifications
from sessions_app.conversation.sessions import lock
from sessions_app.models import MessageExtras, Session, Turn
from sessions_app.services import Accepted, NewMessage
from sessions_app.surfaces.threads import message_schemas
from sessions_app.surfaces.threads.errors import Unprocessable
from sessions_app.surfaces.threads.foreign_ids import user_uuid
from sessions_app.surfaces.threads.requests import LONGEST_TEXT

NAME = "threads"  # of what this surface keeps beside sessions and runs
LANGUAGES = {"en": "Answer in English.", "zh": "Answer in Chinese (简体中文)."}
_LONGEST_TITLE_MADE = 80
_MOST_PARENTS = 100


def open_thread(user: User, fields: dict[str, Any]) -> Session:
    """fields: of ThreadBody. Raises NotFound (agent, folder), Forbidden, Conflict when the path's name is taken."""
    if fields["system_managed"]:
        raise Forbidden("Threads that only the system may change are made by the system.")
    if fields["parent_path_part_id"] not in (None, user_uuid(user.pk)):
        raise NotFound("There is no such folder.")
    access_agent(user, fields["agent_id"])
    title = (fields["title"] or "").strip()
    name = fields["path_part_name"]
    # Hashed, because a key is short; marked, so that it meets no other surface's.
    thread_id = f"{NAME}-{hashlib.sha256(name.encode()).hexdigest()[:32]}" if name else ""
    try:
        with transaction.atomic():
            session = services.open_session(
                owner=user,
                agent_id=fields["agent_id"],
                title=title,
                thread_id=thread_id,
                metadata={NAME: {"path_part_name": name}} if name else {},
            )
    except IntegrityError:
        raise Conflict(f"There is a thread named {name!r} already.") from None
    if fields["message_for_title"]:
        services.rename_session(session, _title_from(fields["message_for_title"]))
        session.refresh_from_db(fields=["title"])
    return session


def change_thread(user: User, session: Session, changes: dict[str, Any]) -> Session:
    """changes: of ThreadChanges. Raises NotFound for a parent that is not the user's, Conflict for a circle."""
    if title := changes.get("title"):
        services.rename_session(session, title)
    if "parent_thread_id" in changes:
        parent = changes["parent_thread_id"]
        if parent is not None:
            _check_parent(user, session.id, parent)
        with transaction.atomic():
            metadata = dict(lock(session.id).metadata)
            own = {**metadata.get(NAME, {}), "parent_thread_id": str(parent) if parent else None}
            Session.objects.filter(pk=session.id).update(metadata={**metadata, NAME: own})
    return access_session(user, session.id)


def send_message(user: User, session: Session, fields: dict[str, Any], key: str) -> Accepted:
    """Have the agent answer. fields: of UserMessageBody. Raises RunBusy while it answers another message, and what
    `receive` raises."""
    instructions = LANGUAGES.get(fields["output_language"] or "", "")
    options = RunOptions(instructions=instructions, note={NAME: {}})
    accepted = services.receive(
        NewMessage.into(session, fields["input_text"]),
        owner=user,
        session=session,
        idempotency_key=key,
        options=services.ReceiveOptions(busy="reject", run=options, longest_text=LONGEST_TEXT),
    )
    if not session.title and not accepted.is_duplicate:
        title = Session.objects.values_list("title", flat=True).get(pk=session.id)
        notifications.announce_title(user.pk, session.id, title)
    return accepted


def write_message(session: Session, fields: dict[str, Any]) -> Turn:
    """Store a message that nobody answers; agents know it from then on. fields: of MessageBody.

    The same `message_id` gives the message that was stored first. Raises Unprocessable for parts and citations that
    clients could not read, Conflict when the id is another message's.
    """
    content, details = fields["content"], fields["details"]
    extras = {name: content[name] for name in ("citations", "references") if content[name]}
    if problem := message_schemas.problem_of(extras, details):
        raise Unprocessable(problem)
    if prior := _find_prior(session, fields["message_id"]):
        return prior
    role = str(fields["role"]).lower()
    state = "error" if content["is_error"] else "complete"
    try:
        with transaction.atomic():
            turn = _store(session, fields["message_id"], role, content["text"], state)
            if extras or details:
                MessageExtras.objects.create(turn=turn, content=extras, details=details)
    except IntegrityError:  # the same message at the same time
        prior = _find_prior(session, fields["message_id"])
        if prior is None:
            raise
        return prior
    return turn


def parent_of(session: Session) -> str | None:
    return session.metadata.get(NAME, {}).get("parent_thread_id") or None


def path_name_of(session: Session) -> str:
    """The last part of the thread's path."""
    return session.metadata.get(NAME, {}).get("path_part_name") or str(session.id)


def _store(session: Session, message_id: UUID | None, role: str, text: str, state: str) -> Turn:
    """In the caller's transaction."""
    now = timezone.now()
    ordinal = lock(session.id).next_ordinal
    turn = Turn(session=session, ordinal=ordinal, part=0, role=role, content=text, state=state, created_at=now)
    if message_id:
        turn.pk = message_id
    turn.save(force_insert=True)
    Session.objects.filter(pk=session.id).update(
        next_ordinal=ordinal + 1, message_count=F("message_count") + 1, last_active_at=now
    )
    return turn


def _find_prior(session: Session, message_id: UUID | None) -> Turn | None:
    if message_id is None:
        return None
    turn = Turn.objects.filter(pk=message_id).first()
    if turn is not None and turn.session_id != session.id:
        raise Conflict("This message_id is taken.")
    return turn


def _check_parent(user: User, thread_id: UUID, parent: UUID) -> None:
    wanted: str | None = str(parent)
    for _ in range(_MOST_PARENTS):
        if wanted is None:
            return
        if wanted == str(thread_id):
            raise Conflict("A thread cannot be its own parent, nor that of a parent of its.")
        try:
            wanted = parent_of(access_session(user, wanted))
        except NotFound:
            if wanted == str(parent):
                raise NotFound("There is no such parent thread.") from None
            return
    raise InvalidInput(f"Threads are nested at most {_MOST_PARENTS} deep.")


def _title_from(message: str) -> str:
    line = message.strip().split("\n", 1)[0].strip() or "New Thread"
    return shorten(line, _LONGEST_TITLE_MADE)
