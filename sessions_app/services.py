"""What people and channels do with sessions: send, open, bind, rename, delete, stop, retry."""

from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.models import Run
from audit_app import services as audit
from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.kernel.ids import new_id
from sessions_app import events
from sessions_app.keys import SessionKey
from sessions_app.models import Session
from sessions_app.opening import fact_about, lock, open_new
from sessions_app.receiving import LONGEST_TEXT, Accepted, Inbound, receive

__all__ = [
    "LONGEST_TEXT", "WEB_CHAT", "Accepted", "Inbound", "bind_session", "cancel_session_runs", "delete_session",
    "open_session", "receive", "rename_session", "retry_run",
]  # fmt: skip

WEB_CHAT = "WebChat"
LONGEST_TITLE = 200


def open_session(*, owner: User, agent_id: str = "default", title: str = "") -> Session:
    """A new, empty web chat session of the user, beside those there are. Raises NotFound for an unknown agent."""
    key = SessionKey(WEB_CHAT, "default", str(owner.pk), str(new_id()))
    with transaction.atomic():
        name = owner.get_full_name() or owner.username
        session, facts = open_new(key, owner, name, agents.get_agent(agent_id), title)
        audit.emit(facts)
    return session


def bind_session(session: Session, agent_id: str) -> Session:
    """Route all later messages of the session to another agent. Raises NotFound for an unknown one."""
    agent = agents.get_agent(agent_id)
    with transaction.atomic():
        session = lock(session.id)
        if session.agent_id != agent.pk:
            payload = {"agent_id": agent.agent_id, "previous": session.agent.agent_id}
            Session.objects.filter(pk=session.id).update(agent=agent)
            session.agent = agent
            audit.emit([fact_about(session, events.SESSION_BOUND, payload)])
    return session


def rename_session(session: Session, title: str) -> None:
    """Raises InvalidInput for an empty or over-long title."""
    title = title.strip()
    if not 1 <= len(title) <= LONGEST_TITLE:
        raise InvalidInput("A title has 1 to 200 characters.", code="title_length")
    with transaction.atomic():
        Session.objects.filter(pk=session.id).update(title=title)


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
