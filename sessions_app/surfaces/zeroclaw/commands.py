"""Changes: sessions that are opened, messages, decisions. Synchronous."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from audit_app import rights
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from audit_app.kernel.ids import new_id
from sessions_app import services
from sessions_app.access import access_agent, access_approval, access_session
from sessions_app.approvals import decisions, permissions
from sessions_app.identity import rate_limits
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.services import Accepted, NewMessage, ReceiveOptions
from sessions_app.surfaces.base import client_sessions
from sessions_app.surfaces.zeroclaw import queries
from sessions_app.surfaces.zeroclaw.queries import NAME
from sessions_app.surfaces.zeroclaw.requests import read_session_id
from tools_app.types import Decision

DEFAULT_AGENT = "default"
_OF_KEY = "webhook "  # begins the names of conversations that only an idempotency key names: no session id has a blank
_DECISIONS = {"approve": Decision.ALLOW_ONCE, "deny": Decision.DENY, "always": Decision.ALLOW_ALWAYS}


@dataclass(frozen=True)
class Chat:
    """A session that a connection shows.

    cursor: from where it is watched.
    decisions: those that the caller may make on its requests for approval.
    """

    session: Session
    is_resumed: bool
    cursor: str
    decisions: Collection[Decision]


def send_webhook(principal: Principal, agent_id: str, text: str, session_id: str, key: str) -> Accepted:
    """Receive a message.

    session_id: the client's id of its conversation; empty for one of its own.
    key: the idempotency key, or empty.
    Raises what `services.receive` and `open_session` raise.
    """
    # A repeated message must find the conversation of the first.
    name = read_session_id(session_id) if session_id else f"{_OF_KEY}{key}" if key else ""
    session, _ = open_session(principal, agent_id, name)
    return _receive(principal, session, text, key)


def open_chat(principal: Principal, agent_id: str, session_id: str, title: str) -> Chat:
    """Open or resume a session.

    session_id: the client's id of it; empty for a new one.
    title: its name, or empty.
    Raises what `open_session` raises.
    """
    session, is_resumed = open_session(principal, agent_id, read_session_id(session_id or str(new_id())))
    if title and title != session.title:
        principal.require_write()
        services.rename_session(session, title)
        session.title = title.strip()
    user = principal.user
    allowed = permissions.allowed_decisions(user, session.owner_id) if principal.can_write else ()
    return Chat(session, is_resumed, queries.cursor_of(session.id), allowed)


def open_session(principal: Principal, agent_id: str, name: str) -> tuple[Session, bool]:
    """Return the caller's session of that name, opened if there is none, and whether there was one.

    name: empty for a new one.
    agent_id: empty for that of the session, or the default agent.
    Raises NotFound (unknown_agent), MissingScope, and Conflict (other_agent) if another agent answers in the session.
    """
    user = principal.user
    found = queries.find_session(user, name) if name else None
    if found:
        if agent_id and found.agent.agent_id != agent_id:
            access_agent(user, agent_id)
            problem = f"The agent {found.agent.agent_id!r} answers in this session. Open another session."
            raise Conflict(problem, code="other_agent")
        return found, True
    principal.require_write()
    agent = access_agent(user, agent_id or DEFAULT_AGENT)
    thread_id = client_sessions.thread_id_of(NAME, name or str(new_id()))
    metadata: dict[str, Any] = {NAME: {"id": name} if name and not name.startswith(_OF_KEY) else {}}
    return client_sessions.open_session(user, agent.agent_id, thread_id, (), metadata), False


def send(principal: Principal, session: Session, text: str) -> Accepted:
    """Receive a message of the chat, which joins an open run. Raises what `services.receive` raises."""
    principal.require_write()
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    return _receive(principal, access_session(principal.user, session.id), text, busy="steer")


def decide(principal: Principal, session: Session, request_id: str, decision: str) -> None:
    """Decide a request for approval of the session. Raises NotFound, MissingRight, AlreadyDecided, ApprovalExpired."""
    principal.require_write()
    made = _DECISIONS.get(decision)
    if made is None:
        raise InvalidInput("The decision is approve, deny or always.", code="invalid_decision")
    rights.renew(principal.user, User.objects.get(pk=principal.user.pk))  # the connection may be days old
    approval = access_approval(principal.user, request_id, decision=made)
    if approval.session_id != session.id:
        raise NotFound("There is no such approval.")
    fresh = principal.has_fresh_login
    decisions.decide(approval.id, decision=made, actor=principal.actor, has_fresh_login=fresh, note="")


def stop(session: Session) -> bool:
    """Stop the runs of a session. Return whether there were any."""
    return services.cancel_session_runs(session, reason="Stopped.") > 0


def _receive(principal: Principal, session: Session, text: str, key: str = "", *, busy: str = "") -> Accepted:
    message, options = NewMessage.into(session, text), ReceiveOptions(busy=busy)
    # The prefix keeps keys of this surface apart from those of others.
    key = f"{NAME}:{key}" if key else ""
    return services.receive(message, owner=principal.user, session=session, idempotency_key=key, options=options)
