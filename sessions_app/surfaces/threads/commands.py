"""Creates and changes threads and stores messages in them. Synchronous; each function owns its transaction.

A thread is a session of its user; the sessions of the chat page are threads too.
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
from audit_app.kernel.ids import new_id
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

NAME = "threads"  # the key of this surface's data in sessions and runs
LANGUAGES = {"en": "Answer in English.", "zh": "Answer in Chinese (简体中文)."}
_LONGEST_DERIVED_TITLE = 80
_MOST_PARENTS = 100


def open_thread(user: User, fields: dict[str, Any]) -> Session:
    """Create a thread. fields: of ThreadBody.

    Raises NotFound (agent, folder), Forbidden, Conflict if the user has a thread of that `path_part_name`.
    """
    if fields["system_managed"]:
        raise Forbidden("Only the system can create threads with `system_managed`.")
    if fields["parent_path_part_id"] not in (None, user_uuid(user.pk)):
        raise NotFound("There is no such folder.")
    access_agent(user, fields["agent_id"])
    title = (fields["title"] or "").strip()
    name = fields["path_part_name"]
    # Hashed, since session keys are short; prefixed, so that it differs from the keys of other surfaces.
    thread_id = f"{NAME}-{hashlib.sha256(name.encode()).hexdigest()[:32]}" if name else ""
    try:
        with transaction.atomic():
            metadata = {NAME: {"path_part_name": name}} if name else {}
            wanted: dict[str, Any] = {"agent_id": fields["agent_id"], "title": title, "metadata": metadata}
            session = services.open_session(owner=user, thread_id=thread_id, **wanted)
    except IntegrityError:
        raise Conflict(f"A thread named {name!r} already exists.") from None
    if message := fields["message_for_title"]:
        line = message.strip().split("\n", 1)[0].strip() or "New Thread"
        services.rename_session(session, shorten(line, _LONGEST_DERIVED_TITLE))
        session.refresh_from_db(fields=["title"])
    return session


def change_thread(user: User, session: Session, changes: dict[str, Any]) -> Session:
    """Change a thread and return it. changes: of ThreadChanges.

    Raises NotFound for a parent that is not the user's, Conflict if the parent is a descendant.
    """
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
    """Store a user message and queue the run that answers it.

    key: idempotency key.

    Raises RunBusy while another run of the thread is active, and what `services.receive` raises.
    """
    options = RunOptions(instructions=LANGUAGES.get(fields["output_language"] or "", ""), note={NAME: {}})
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
    """Store a message that starts no run; later runs have it in their history. fields: of MessageBody.

    Idempotent under `message_id`. Raises Unprocessable for parts and citations that clients cannot read, Conflict if
    another thread has a message of that id.
    """
    content, details = fields["content"], fields["details"]
    extras = {name: content[name] for name in ("citations", "references") if content[name]}
    if problem := message_schemas.problem_of(extras, details):
        raise Unprocessable(problem)
    if prior := _find_prior(session, fields["message_id"]):
        return prior
    try:
        with transaction.atomic():
            turn = _store(session, fields)
            if extras or details:
                MessageExtras.objects.create(turn=turn, content=extras, details=details)
    except IntegrityError:  # the same message, sent concurrently
        prior = _find_prior(session, fields["message_id"])
        if prior is None:
            raise
        return prior
    return turn


def parent_of(session: Session) -> str | None:
    return session.metadata.get(NAME, {}).get("parent_thread_id") or None


def path_name_of(session: Session) -> str:
    """Return the last part of the thread's path."""
    return session.metadata.get(NAME, {}).get("path_part_name") or str(session.id)


def _store(session: Session, fields: dict[str, Any]) -> Turn:
    """Insert a turn at the end of the session, in the caller's transaction."""
    now = timezone.now()
    locked = lock(session.id)
    ordinal = locked.next_ordinal
    turn = Turn.objects.create(
        pk=fields["message_id"] or new_id(),
        session=session,
        ordinal=ordinal,
        branch=locked.active_branch,
        part=0,
        role=fields["role"].lower(),
        content=fields["content"]["text"],
        state="error" if fields["content"]["is_error"] else "complete",
        created_at=now,
    )
    changes = {"next_ordinal": ordinal + 1, "message_count": F("message_count") + 1, "last_active_at": now}
    Session.objects.filter(pk=session.id).update(**changes)
    return turn


def _find_prior(session: Session, message_id: UUID | None) -> Turn | None:
    if message_id is None:
        return None
    turn = Turn.objects.filter(pk=message_id).first()
    if turn is not None and turn.session_id != session.id:
        raise Conflict("Another thread has a message of this message_id.")
    return turn


def _check_parent(user: User, thread_id: UUID, parent: UUID) -> None:
    wanted: str | None = str(parent)
    for _ in range(_MOST_PARENTS):
        if wanted is None:
            return
        if wanted == str(thread_id):
            raise Conflict("A thread cannot be its own ancestor.")
        try:
            wanted = parent_of(access_session(user, wanted))
        except NotFound:
            if wanted == str(parent):
                raise NotFound("There is no thread of this parent_thread_id.") from None
            return
    raise InvalidInput(f"Threads can be nested at most {_MOST_PARENTS} levels deep.")
