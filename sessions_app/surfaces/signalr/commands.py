"""What the hub's methods do, synchronously: find the session, take messages in, stop runs, decide requests."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from agents_app import selectors as agents
from audit_app.kernel.errors import InvalidInput
from sessions_app import selectors, services
from sessions_app.access import access_agent, access_approval, access_session
from sessions_app.approvals import decisions, permissions
from sessions_app.conversation.citations import full_text
from sessions_app.conversation.session_key import SessionKey
from sessions_app.identity import rate_limits
from sessions_app.identity.actor_names import display_name
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import ReadOnlyKey
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Session
from sessions_app.services import WEB_CHAT, NewMessage
from sessions_app.surfaces.base.citations_json import CitationOut
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.signalr.projection import message_of
from tools_app.types import Decision


@dataclass(frozen=True)
class Watched:
    """A session that a connection is to be told of. cursor: from where on; run_id: of the message just sent; may_say:
    all that the caller may say to requests for approval there; was_here: it has been told of it up to the cursor."""

    session_id: UUID
    key: str
    agent_id: str
    cursor: str
    run_id: UUID | None = None
    allowed_decisions: tuple[Decision, ...] = ()
    was_here: bool = False


def send_message(principal: Principal, agent_id: Any, content: Any, idempotency_key: Any = "") -> Watched:
    """Take a message in for the caller's session with that agent. Raises what `receive` raises, and NotFound."""
    user = _writer(principal)
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    agent_id, content = _text(agent_id, "agentId"), _text(content, "content")
    key = _text(idempotency_key, "idempotencyKey") if idempotency_key else ""
    access_agent(user, agent_id)
    session_key = _key_of(user, agent_id)
    existing = Session.objects.select_related("agent").filter(key=str(session_key), deleted_at=None).first()
    cursor = cursor_now(existing.id) if existing else ""
    inbound = NewMessage(
        session_key.channel,
        session_key.account_id,
        session_key.sender_id,
        display_name(user),
        content,
        thread_id=session_key.thread_id,
    )
    accepted = services.receive(inbound, owner=user, session=existing, agent_id=agent_id, idempotency_key=key)
    allowed_decisions = permissions.allowed_decisions(user, user.pk)
    return Watched(accepted.session_id, accepted.session_key, agent_id, cursor, accepted.run_id, allowed_decisions)


def find_watched(principal: Principal, session_id: Any, last_event_id: Any = None) -> Watched:
    """A session of the caller, to be told of from that event on; from now on without one. Raises NotFound."""
    session = access_session(principal.user, _text(session_id, "sessionId"))
    cursor = cursor_now(session.id) if last_event_id is None else _text(last_event_id, "lastEventId", may_be_empty=True)
    allowed_decisions = permissions.allowed_decisions(principal.user, session.owner_id) if principal.can_write else ()
    was_here = last_event_id is not None
    return Watched(
        session.id, session.key, session.agent.agent_id, cursor, allowed_decisions=allowed_decisions, was_here=was_here
    )


def cancel(principal: Principal, session_id: Any, run_id: Any = None) -> int:
    """Stop the session's runs, or the one of that message. The count that was asked to stop."""
    session = access_session(_writer(principal), _text(session_id, "sessionId"))
    try:
        wanted = None if run_id is None else UUID(_text(run_id, "messageId"))
    except ValueError:
        raise InvalidInput("messageId is no id of a message.", code="invalid_argument") from None
    return services.cancel_session_runs(session, reason="Stopped.", run_id=wanted)


def decide(principal: Principal, approval_id: Any, decision: Any, note: Any = "") -> dict[str, Any]:
    """Decide a request for approval. Raises NotFound, Forbidden, AlreadyDecided, ApprovalExpired."""
    approval = access_approval(_writer(principal), _text(approval_id, "approvalId"), to_decide=True)
    decided = decisions.decide(
        approval.id, decision=_text(decision, "decision"), actor=principal.actor, note=str(note or "")
    )
    return {"approvalId": str(decided.id), "status": decided.status.value, "decision": decided.decision}


def read_message(watched: Watched, run_id: UUID) -> dict[str, Any]:
    """What an ended run said, as it is stored."""
    session = Session.objects.get(pk=watched.session_id)
    transcript = agents.get_transcript(run_id)
    text, citations = full_text(transcript, selectors.citations_by_step(run_id))
    state = "complete" if transcript.run.status.value == "completed" else "partial"
    timestamp = iso(transcript.run.ended_at) or ""
    cited = [CitationOut.of(citation) for citation in citations]
    return message_of(session.key, session.channel, session.sender_id, run_id, text, timestamp, state, cited)


def _key_of(user: User, agent_id: str) -> SessionKey:
    """The caller's current session when it is with that agent or not begun; else one for that agent."""
    current = SessionKey(WEB_CHAT, "default", str(user.pk))
    agent = Session.objects.filter(key=str(current), deleted_at=None).values_list("agent__agent_id", flat=True).first()
    if agent in (None, agent_id):
        return current
    return SessionKey(WEB_CHAT, "default", str(user.pk), f"agent-{agent_id}")


def _writer(principal: Principal) -> User:
    if not principal.can_write:
        raise ReadOnlyKey
    return principal.user


def _text(value: Any, name: str, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or may_be_empty):
        raise InvalidInput(f"{name} is a text.", code="invalid_argument")
    return value
