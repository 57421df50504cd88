"""The methods of the hub: send messages, follow sessions, steer and cancel runs, decide approvals. Synchronous."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from agents_app import selectors as agents
from agents_app.types import RunStatus
from agents_app.types.child_runs import ChildView
from audit_app import rights
from audit_app.kernel.errors import InvalidInput
from sessions_app import selectors, services
from sessions_app.access import access_agent, access_approval, access_run, access_session
from sessions_app.approvals import decisions, permissions
from sessions_app.conversation.citations import full_text
from sessions_app.conversation.session_key import SessionKey
from sessions_app.identity import rate_limits
from sessions_app.identity.actor_names import display_name
from sessions_app.identity.principal import Principal
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Session
from sessions_app.services import WEB_CHAT, NewMessage
from sessions_app.surfaces.base.citations_json import CitationOut
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.base.written_files import WrittenFileOut, written_files
from tools_app.types import Decision


@dataclass(frozen=True)
class HubSubscription:
    """A session that a connection follows. run_id: the run of the message just sent.

    cursor: position after which its events are sent.
    is_resumed: whether the client has seen the events up to there.
    allowed_decisions: decisions on approval requests of the session that the caller may make.
    """

    session_id: UUID
    key: str
    agent_id: str
    cursor: str
    run_id: UUID | None = None
    allowed_decisions: tuple[Decision, ...] = ()
    is_resumed: bool = False


def send_message(
    principal: Principal, agent_id: Any, content: Any, idempotency_key: Any = "", attachments: Any = None
) -> HubSubscription:
    """Send a message in the caller's session with that agent. Raises NotFound, and what `receive` raises.

    attachments: ids of files that the caller has uploaded over REST. A message with files may have no text.
    """
    user = _writer(principal)
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    files = _ids(attachments or [], "attachments")
    agent_id, content = _text(agent_id, "agentId"), _text(content, "content", may_be_empty=bool(files))
    idempotency_key = _text(idempotency_key, "idempotencyKey") if idempotency_key else ""
    access_agent(user, agent_id)
    key = _key_of(user, agent_id)
    existing = Session.objects.select_related("agent").filter(key=str(key), owner=user, deleted_at=None).first()
    cursor = cursor_now(existing.id) if existing else ""
    place, name = (key.channel, key.account_id, key.sender_id), display_name(user)
    inbound = NewMessage(*place, name, content, thread_id=key.thread_id, attachments=files)
    fields: dict[str, Any] = {"owner": user, "agent_id": agent_id, "idempotency_key": idempotency_key}
    accepted = services.receive(inbound, session=existing, **fields)
    allowed, run_id = permissions.allowed_decisions(user, user.pk), accepted.run_id
    return HubSubscription(accepted.session_id, accepted.session_key, agent_id, cursor, run_id, allowed)


def find_subscription(principal: Principal, session_id: Any, last_event_id: Any = None) -> HubSubscription:
    """Return a subscription to a session of the caller after an event, or from now on. Raises NotFound."""
    session = access_session(principal.user, _text(session_id, "sessionId"))
    is_resumed = last_event_id is not None
    cursor = _text(last_event_id, "lastEventId", may_be_empty=True) if is_resumed else cursor_now(session.id)
    allowed_decisions = permissions.allowed_decisions(principal.user, session.owner_id) if principal.can_write else ()
    return HubSubscription(session.id, session.key, session.agent.agent_id, cursor, None, allowed_decisions, is_resumed)


def cancel(principal: Principal, session_id: Any, run_id: Any = None) -> int:
    """Cancel the session's runs, or the run of one message. Return the number of runs that are being cancelled."""
    session = access_session(_writer(principal), _text(session_id, "sessionId"))
    try:
        wanted = None if run_id is None else UUID(_text(run_id, "messageId"))
    except ValueError:
        raise InvalidInput("`messageId` must be the id of a message.", code="invalid_argument") from None
    return services.cancel_session_runs(session, reason="Stopped.", run_id=wanted)


def list_workstreams(principal: Principal, session_id: Any) -> list[dict[str, Any]]:
    """Return the open workstreams of a session, oldest first."""
    session = access_session(principal.user, _text(session_id, "sessionId"))
    return [_shown(view) for view in agents.list_workstreams(session.id)]


def _shown(view: ChildView) -> dict[str, Any]:
    return {
        "runId": str(view.launch_id),
        "parentRunId": str(view.parent_id),
        "workstream": view.workstream,
        "name": view.name,
        "path": list(view.path),
        "state": view.state.value,
        "phase": view.phase.value,
        "asks": view.asks or None,
        "isIdle": view.is_idle,
        "isPaused": view.is_paused,
    }


def message_run(principal: Principal, run_id: Any, content: Any, idempotency_key: Any = "") -> str:
    """Send a message to a workstream. Return the id of its run. Raises what `services.ask_workstream` raises."""
    return _ask(principal, run_id, _text(content, "content"), idempotency_key)


def steer_run(principal: Principal, run_id: Any, command: Any, text: Any = "", idempotency_key: Any = "") -> str:
    """Give a workstream an instruction, pause or resume it. Return the id of its run."""
    text = _text(text or "", "text", may_be_empty=True)
    return _ask(principal, run_id, text, idempotency_key, command=_text(command, "command"))


def _ask(principal: Principal, run_id: Any, text: str, idempotency_key: Any, **more: str) -> str:
    view = access_run(_writer(principal), _text(run_id, "runId"))
    session = access_session(principal.user, view.conversation_id)
    rate_limits.take(rate_limits.chat_limit(), principal.actor)
    key = _text(idempotency_key or "", "idempotencyKey", may_be_empty=True)
    services.ask_workstream(session, view.id, text, actor=principal.actor, key=key, **more)
    return str(view.id)


def decide(principal: Principal, approval_id: Any, decision: Any, note: Any = "") -> dict[str, Any]:
    """Decide an approval request. Raises NotFound, Forbidden, AlreadyDecided, ApprovalExpired."""
    decision = _text(decision, "decision")
    rights.renew(principal.user, User.objects.get(pk=principal.user.pk))  # the connection may be days old
    approval = access_approval(_writer(principal), _text(approval_id, "approvalId"), decision=decision)
    decided = decisions.decide(
        approval.id,
        decision=decision,
        actor=principal.actor,
        has_fresh_login=principal.has_fresh_login,
        note=str(note or ""),
    )
    return {"approvalId": str(decided.id), "status": decided.status.value, "decision": decided.decision}


def read_message(subscription: HubSubscription, run_id: UUID) -> dict[str, Any]:
    """Return the stored text of an ended run as the argument of `ReceiveMessage`.

    The outbound message of the original hub with more fields. state: complete | partial.
    """
    session = Session.objects.get(pk=subscription.session_id)
    transcript = agents.get_transcript(run_id)
    text, citations = full_text(transcript, selectors.citations_by_step(run_id))
    return {
        "messageId": str(run_id),
        "sessionId": session.key,
        "channel": session.channel,
        "recipientId": session.sender_id,
        "role": "assistant",
        "text": text,
        "content": text,
        "state": "complete" if transcript.run.status is RunStatus.COMPLETED else "partial",
        "timestamp": iso(transcript.run.ended_at) or "",
        "attachments": [WrittenFileOut.of(file) for file in written_files(session.id, run_id)],
        "citations": [CitationOut.of(citation) for citation in citations],
    }


def _key_of(user: User, agent_id: str) -> SessionKey:
    """Return the key of the caller's web chat if it is with that agent or has not begun, else one for that agent."""
    current = SessionKey(WEB_CHAT, "default", str(user.pk))
    own = Session.objects.filter(key=str(current), owner=user, deleted_at=None)
    agent = own.values_list("agent__agent_id", flat=True).first()
    if agent in (None, agent_id):
        return current
    return SessionKey(WEB_CHAT, "default", str(user.pk), f"agent-{agent_id}")


def _writer(principal: Principal) -> User:
    principal.require_write()
    return principal.user


def _ids(value: Any, name: str) -> tuple[UUID, ...]:
    try:
        if isinstance(value, list):
            return tuple(UUID(item) for item in value)
    except (ValueError, AttributeError, TypeError):
        pass
    raise InvalidInput(f"`{name}` must be a list of ids of uploaded files.", code="invalid_argument")


def _text(value: Any, name: str, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or may_be_empty):
        raise InvalidInput(f"`{name}` must be a {'' if may_be_empty else 'non-empty '}string.", code="invalid_argument")
    return value
