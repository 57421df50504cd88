"""Takes a question of this protocol in: finds or opens the session it belongs to and stores it as a message.

Synchronous. A question without a session is a conversation of its own, kept apart from those of the chat page: the
client sends all that was said before each time.
"""

import hashlib
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError

from agents_app import selectors as agents
from agents_app.types import Message
from audit_app.kernel.errors import NotFound
from sessions_app import services
from sessions_app.access import access_agent, access_run, access_session
from sessions_app.identity.principal import Principal
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Session, Turn
from sessions_app.services import Accepted, NewMessage
from sessions_app.surfaces.openai.chat_messages import refuse
from sessions_app.surfaces.openai.requests import LONGEST_TEXT, NAME, Question
from tools_app.types import ToolCall

CHANNEL = "Api"


@dataclass(frozen=True)
class AcceptedRequest:
    """cursor: from where on to watch for the answer; created: seconds since 1970."""

    accepted: Accepted
    cursor: str
    created: int


def ask(principal: Principal, question: Question, idempotency_key: str) -> AcceptedRequest:
    """Raises NotFound (unknown model, session or response), InvalidInput, and what `receive` raises."""
    access_agent(principal.user, question.model)
    session = _session_of(principal.user, question, idempotency_key)
    cursor = cursor_now(session.id)
    accepted = services.receive(
        NewMessage.into(session, question.text),
        owner=principal.user,
        session=session,
        idempotency_key=idempotency_key,
        options=services.ReceiveOptions(run=question.options, longest_text=LONGEST_TEXT),
    )
    run = agents.get_run(accepted.run_id)
    return AcceptedRequest(accepted, "" if accepted.is_duplicate else cursor, int(run.created_at.timestamp()))


def ask_again(user: User, run_id: UUID) -> AcceptedRequest:
    """A question that has its run already. Raises NotFound."""
    run = access_run(user, run_id)
    session = access_session(user, run.conversation_id)
    turn_id = Turn.objects.filter(run_id=run.id, role="user").order_by("part").values_list("pk", flat=True)[0]
    accepted = Accepted(session.id, session.key, turn_id, run.id, run.ordinal, is_duplicate=True)
    return AcceptedRequest(accepted, "", int(run.created_at.timestamp()))


def run_of(user: User, response_id: str) -> UUID:
    """The run that a response of the user stands for. Raises NotFound."""
    try:
        return access_run(user, UUID(hex=response_id.removeprefix("resp_"))).id
    except (NotFound, ValueError):
        raise NotFound(f"There is no response {response_id!r}.", code="response_not_found") from None


def _session_of(user: User, question: Question, idempotency_key: str) -> Session:
    if question.session and question.previous:
        raise refuse("A question goes on from a session or from a response, not both.", "previous_response_id")
    if question.session:
        session = access_session(user, question.session)
        _check_agent(session, question)
        return session
    history = list(question.history)
    if question.previous:
        earlier, is_last = _before(user, question.previous)
        if is_last and not history:
            _check_agent(earlier, question)
            return earlier
        history = [*_said_until(user, question.previous), *history]
    return _own_session(user, question, history, idempotency_key)


def _check_agent(session: Session, question: Question) -> None:
    if session.agent.agent_id != question.model:
        raise refuse(f"That conversation is with the agent {session.agent.agent_id!r}.", "model")


def _before(user: User, response_id: str) -> tuple[Session, bool]:
    """The session of a response, and whether nothing was asked there since."""
    run = agents.get_run(run_of(user, response_id))
    session = access_session(user, run.conversation_id)
    return session, session.next_ordinal == run.ordinal + 1


def _said_until(user: User, response_id: str) -> list[Message]:
    """Everything that was said up to a response, which others may have followed by now."""
    run = agents.get_run(run_of(user, response_id))
    turns = Turn.objects.filter(session_id=run.conversation_id, ordinal__lte=run.ordinal).exclude(state="error")
    return [
        Message(
            turn.role,
            turn.content,
            tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in turn.tool_calls),
            turn.tool_call_id,
        )
        for turn in turns.order_by("ordinal", "part")
    ]


def _own_session(user: User, question: Question, history: list[Message], idempotency_key: str) -> Session:
    """A new session; the same one when the same request comes again under its key."""
    thread_id = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32] if idempotency_key else ""
    wanted: dict[str, Any] = {"owner": user, "agent_id": question.model, "channel": CHANNEL, "thread_id": thread_id}
    if thread_id and (found := _find(user, thread_id)):
        return found
    try:
        return services.open_session(**wanted, metadata={NAME: {}}, history=history)
    except IntegrityError:  # the same request at the same time
        found = _find(user, thread_id)
        if found is None:
            raise
        return found


def _find(user: User, thread_id: str) -> Session | None:
    rows = Session.objects.select_related("agent").filter(owner=user, channel=CHANNEL, deleted_at=None)
    return rows.filter(key__endswith=f":{thread_id}").first()
