"""What people and channels do with sessions: send, open, bind, rename, delete, stop, retry."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.models import Run
from agents_app.types import Message
from audit_app import services as audit
from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.kernel.ids import new_id
from sessions_app import events
from sessions_app.conversation import notifications
from sessions_app.conversation.new_message import LONGEST_TEXT, Accepted, NewMessage, ReceiveOptions
from sessions_app.conversation.receive_message import receive
from sessions_app.conversation.session_key import SessionKey
from sessions_app.conversation.sessions import event_about, import_history, lock, open_new
from sessions_app.identity.actor_names import display_name
from sessions_app.models import Session

__all__ = [
    "LONGEST_TEXT",
    "WEB_CHAT",
    "Accepted",
    "NewMessage",
    "ReceiveOptions",
    "bind_session",
    "cancel_session_runs",
    "delete_session",
    "open_session",
    "receive",
    "rename_session",
    "retry_run",
]

WEB_CHAT = "WebChat"
LONGEST_TITLE = 255


def open_session(
    *,
    owner: User,
    agent_id: str = "default",
    title: str = "",
    channel: str = WEB_CHAT,
    thread_id: str = "",
    metadata: Mapping[str, Any] | None = None,
    history: Sequence[Message] = (),
) -> Session:
    """A new session of the user, beside those there are. Raises NotFound for an unknown agent, IntegrityError when the
    thread is taken.

    thread_id: the last part of its public id (empty: one of its own);
    metadata: what the surface that opens it keeps about it, under its own name; history: what was said before, in
    other places: the agent knows it, nobody answers it.
    """
    key = SessionKey(channel, "default", str(owner.pk), thread_id or str(new_id()))
    with transaction.atomic():
        session, facts = open_new(key, owner, display_name(owner), agents.get_agent(agent_id), title, metadata=metadata)
        import_history(session, history)
        audit.emit(facts)
    return session


def bind_session(session: Session, agent_id: str) -> Session:
    """Route all later messages of the session to another agent. Raises NotFound for an unknown one."""
    agent = agents.get_agent(agent_id)
    with transaction.atomic():
        session = lock(session.id)
        if session.agent_id != agent.pk:
            payload: events.SessionBound = {"agent_id": agent.agent_id, "previous": session.agent.agent_id}
            Session.objects.filter(pk=session.id).update(agent=agent)
            session.agent = agent
            audit.emit([event_about(session, events.SESSION_BOUND, payload)])
    return session


def limit_session(session: Session, *, is_readonly: bool, denied: Sequence[str]) -> Session:
    """Take things away from whichever agent answers the session's later messages; it can give none. denied: patterns of
    calls that are not made, already checked."""
    session.policy = {"readonly": is_readonly, "deniedTools": list(denied)}
    with transaction.atomic():
        Session.objects.filter(pk=session.id).update(policy=session.policy)
        audit.record(
            "SessionLimited",
            session_id=session.id,
            session_key=session.key,
            agent_id=session.agent.agent_id,
            details=session.policy,
        )
    return session


def rename_session(session: Session, title: str) -> None:
    """Raises InvalidInput for an empty or over-long title."""
    title = title.strip()
    if not 1 <= len(title) <= LONGEST_TITLE:
        raise InvalidInput(f"A title has 1 to {LONGEST_TITLE} characters.", code="title_length")
    with transaction.atomic():
        Session.objects.filter(pk=session.id).update(title=title)
        audit.emit([event_about(session, events.SESSION_RENAMED, {"title": title})])
        notifications.announce_title(session.owner_id, session.id, title)


def delete_session(session: Session) -> None:
    """Stop what runs in it and hide it from its owner; the record stays for the operator. Its key becomes free."""
    cancel_session_runs(session, reason="The session was deleted.")
    freed = SessionKey(session.channel, session.account_id, session.sender_id, f"deleted-{session.id}")
    with transaction.atomic():
        Session.objects.filter(pk=session.id, deleted_at=None).update(deleted_at=timezone.now(), key=str(freed))
        audit.record("SessionDeleted", session_id=session.id, session_key=session.key, agent_id=session.agent.agent_id)


def cancel_session_runs(session: Session, *, reason: str, run_id: UUID | None = None) -> int:
    """Stop the session's open runs, or just the given one. The count that was asked to stop; 0 for a stale run id."""
    open_runs = agents.list_open_runs(session.id)
    # From the last to the first: stopping the first would only start the second.
    wanted = [run for run in reversed(open_runs) if run_id in (None, run.id)]
    return sum(runs.cancel_run(run.id, reason=reason) for run in wanted)


def retry_run(session: Session, run_id: UUID, *, actor: str) -> UUID:
    """Answer the message of a failed or stopped run again. Raises NotFound when it is not of this session, Conflict."""
    if not Run.objects.filter(pk=run_id, conversation_id=session.id).exists():
        raise NotFound("There is no such run in this session.")
    return runs.retry_run(run_id, actor=actor)
