"""Creating and locking sessions, with the events to emit. All in the caller's transaction."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from agents_app import selectors as agents
from agents_app.configuration import agent_access
from agents_app.configuration.agent_access import AgentNotShared
from agents_app.errors import RunBusy
from agents_app.models import Agent
from agents_app.types import Message
from audit_app import services as audit
from audit_app.event_types import EventType, NewEvent, P
from audit_app.kernel.errors import Forbidden, NotFound
from audit_app.kernel.shorten import shorten
from sessions_app import events, hot_queries
from sessions_app.attachments import model_text, uploads
from sessions_app.attachments import records as attachments
from sessions_app.conversation import imported_texts
from sessions_app.conversation.session_key import STORED_CHANNELS, SessionKey
from sessions_app.identity.actor_names import is_any_user, is_named
from sessions_app.models import Session, Turn

NO_FILES: Mapping[int, Sequence[UUID]] = MappingProxyType({})
ROUTED = "routed"  # key of Session.metadata: a route of the channel account has chosen the agent
_TITLE_LENGTH = 80
_LONGEST_NAME = 200  # the column's; a user's first and last name may be longer together


def find_or_open(
    key: SessionKey, owner: User | None, name: str, agent_id: str, *, metadata: Mapping[str, Any] | None = None
) -> tuple[Session, list[NewEvent]]:
    """Return the session of that key, created if there is none, and the events of its creation.

    A session whose sender id names a user belongs to that user: one that another user opened under it is set aside.

    owner: the user the session is for; None for a channel's sender, whom the account's configuration gives its agent.
    name: the sender's display name.
    metadata: metadata of a session that is created. Raises NotFound for another owner's session, and for an agent
        that the owner
        may not use.
    """
    session = hot_queries.FIND_SESSION_BY_KEY.first(key=str(key))
    if session and owner and session.owner_id != owner.pk and _is_usurped(session, owner):
        set_aside(session)
        session = None
    if session is None:
        try:
            with transaction.atomic():
                agent = agent_access.get_usable_agent(owner, agent_id) if owner else agents.get_agent(agent_id)
                return open_new(key, owner, name, agent, metadata=metadata)
        except IntegrityError:
            session = Session.objects.get(key=str(key))
    if owner is not None and session.owner_id != owner.pk:
        raise NotFound("There is no such session.")
    return session, []


def check_sender(key: SessionKey, owner: User | None) -> None:
    """Raise Forbidden (foreign_sender), audited, if the sender id names a user other than the owner.

    Whatever the owner may otherwise send as others: that user's sessions are under this sender id. At most one query.
    """
    if owner is None or key.channel not in STORED_CHANNELS or is_named(owner, key.sender_id):
        return
    if is_any_user(key.sender_id):
        audit.record("SenderRefused", actor=f"user:{owner.pk}", details={"sender_id": key.sender_id})
        raise Forbidden(
            f"The sender {key.sender_id!r} is a user of this installation, whose sessions are that user's alone. Send "
            "as another sender, or with a credential of that user.",
            code="foreign_sender",
        )


def _is_usurped(session: Session, owner: User) -> bool:
    if session.channel not in STORED_CHANNELS or not is_named(owner, session.sender_id):
        return False
    return session.owner is None or not is_named(session.owner, session.sender_id)


def set_aside(session: Session) -> None:
    """Free the key of a session, which keeps its turns and its owner: the next message opens a new one. Audited."""
    aside = SessionKey(session.channel, session.account_id, session.sender_id, f"before-{session.id}")
    Session.objects.filter(pk=session.pk, key=session.key).update(key=str(aside))
    audit.record("SessionSetAside", session_id=session.pk, session_key=session.key, agent_id=session.agent.agent_id)


def open_new(
    key: SessionKey,
    owner: User | None,
    name: str,
    agent: Agent,
    title: str = "",
    *,
    metadata: Mapping[str, Any] | None = None,
    is_temporary: bool = False,
) -> tuple[Session, list[NewEvent]]:
    """Create a session; return it with the events of its creation. Raises IntegrityError if the key is taken."""
    now = timezone.now()
    session = Session(
        key=str(key),
        channel=key.channel,
        account_id=key.account_id,
        sender_id=key.sender_id,
        sender_name=name[:_LONGEST_NAME],
        owner=owner,
        agent=agent,
        title=title,
        last_active_at=now,
        created_at=now,
        metadata=dict(metadata or {}),
        is_temporary=is_temporary,
    )
    hot_queries.INSERT_SESSION.run([session])
    created: events.SessionCreated = {"channel": key.channel, "agent_id": agent.agent_id}
    return session, [event_about(session, events.SESSION_CREATED, created)]


def import_history(
    session: Session, messages: Sequence[Message | Turn], files: Mapping[int, Sequence[UUID]] = NO_FILES
) -> list[Turn]:
    """Store the messages of another conversation as the next turns of a session. No run answers them. Return the turns.

    messages: as a client sent them, or turns of another session, whose files are copied.
    files: ids of uploaded files by the position of their message.

    The caller's transaction contains the creation of the session, or its lock. Raises what `uploads.take` raises.
    """
    if not messages:
        return []
    turns = [_imported(session, part, message) for part, message in enumerate(messages)]
    imported_texts.set_origins(session.owner, messages, turns)
    taken = {part: uploads.take(session.owner, ids, session) for part, ids in files.items()}
    for part, rows in taken.items():
        turns[part].attached = uploads.describe(rows)
        turns[part].content = turns[part].content or model_text.file_list((row.kind, row.filename) for row in rows)
    Turn.objects.bulk_create(turns)
    for part, rows in taken.items():
        uploads.bind(rows, turns[part].pk)
    for message, turn in zip(messages, turns, strict=True):
        if isinstance(message, Turn) and message.attached:
            attachments.copy([message.pk], turn)
    session.next_ordinal += 1
    count = F("message_count") + len(messages)
    Session.objects.filter(pk=session.pk).update(next_ordinal=session.next_ordinal, message_count=count)
    return turns


def append_history(
    session: Session, messages: Sequence[Message], files: Mapping[int, Sequence[UUID]] = NO_FILES
) -> list[Turn]:
    """Store messages behind the last ones of a session, as `import_history`. Owns its transaction.

    Raises RunBusy while a run of the session is open, whose turns would come behind them.
    """
    with transaction.atomic():
        locked = lock(session.id)
        if agents.has_unstored_runs(session.id):
            raise RunBusy("A message of this conversation is not answered yet. Wait for its answer, then try again.")
        Session.objects.filter(pk=session.pk).update(last_active_at=timezone.now())
        return import_history(locked, messages, files)


def _imported(session: Session, part: int, message: Message | Turn) -> Turn:
    """Return the unsaved turn. The text of files stays apart from what a user has written: it is from outside.

    Messages of the system are read by all later runs, however old they are.
    """
    turn = Turn(
        session=session,
        ordinal=session.next_ordinal,
        part=part,
        branch=session.active_branch,
        role=message.role,
        is_pinned=message.role == "system",
        content=message.content,
        tool_call_id=message.tool_call_id,
        created_at=timezone.now() if session.next_ordinal else session.created_at,
    )
    if isinstance(message, Turn):
        turn.tool_calls, turn.attached = message.tool_calls, message.attached
    else:
        calls = message.tool_calls
        turn.tool_calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    return turn


def check_owner(session: Session, agent: Agent) -> None:
    """Raise AgentNotShared, audited, if the session's owner may not use the agent now.

    Call it outside of a transaction, which would roll back the audit entry.
    """
    if session.owner is None:
        return
    try:
        agent_access.check_still_shared(session.owner, agent)
    except AgentNotShared as refusal:
        agent_access.record_refusal(session.owner, refusal)
        raise


def lock(session_id: UUID) -> Session:
    """Lock the session's row until commit and return it. Never lock a run's row while holding this lock."""
    rows = Session.objects.select_for_update(of=("self",), no_key=True).select_related("agent__provider")
    return rows.get(pk=session_id)


def lock_seen(session: Session) -> Session:
    """Lock the row of a session that was just read; only the fields that may have changed are read again."""
    found = hot_queries.LOCK_SESSION.rows(session_id=session.pk)
    if not found:
        raise Session.DoesNotExist
    next_ordinal, agent_id, active_branch = found[0]
    if agent_id != session.agent_id:
        return lock(session.pk)
    session.next_ordinal, session.active_branch = next_ordinal, active_branch
    return session


def title_of(text: str) -> str:
    """Return the title of a session that begins with this text."""
    return shorten(text.split("\n", 1)[0], _TITLE_LENGTH)


def event_about(session: Session, event_type: EventType[P], payload: P, **fields: Any) -> NewEvent:
    """Return an event of the session. fields: of `NewEvent`; agent_id is by default that of the session."""
    agent_id = fields.pop("agent_id", None) or session.agent.agent_id
    return NewEvent(event_type, session.id, payload, agent_id=agent_id, session_key=session.key, **fields)
