"""Stores a request as a message: in the session that it continues, or in a new one.

Synchronous. A request that names no session is a conversation of its own, which the chat page does not list: the client
sends the messages before each time.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.models import Agent
from agents_app.types import Message, RunView
from audit_app.kernel.errors import NotFound
from sessions_app import services
from sessions_app.access import access_agent, access_run, access_session
from sessions_app.attachments import uploads
from sessions_app.conversation import branches
from sessions_app.identity.principal import Principal
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Session, Turn
from sessions_app.services import Accepted, NewMessage
from sessions_app.surfaces.base import client_calls, client_sessions
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.base.message_files import digest_of
from sessions_app.surfaces.openai import conversations
from sessions_app.surfaces.openai.requests import LONGEST_TEXT, NAME, ParsedRequest

_HEX = 32  # characters of an id


@dataclass(frozen=True)
class AcceptedRequest:
    """A request that is stored.

    cursor: where to watch the session from.
    created: seconds since 1970.
    first_step: the step of the run with which the answer begins; after outputs of the client's tools not the first one.
    is_stored: the client may read the answer later.
    output_schema: JSON Schema of the answer, of the request or else of the agent.
    """

    session_id: UUID
    session_key: str
    run_id: UUID
    cursor: str
    created: int
    output_schema: dict[str, Any] | None = None
    first_step: int = 0
    is_stored: bool = True


def accept(principal: Principal, parsed: ParsedRequest, idempotency_key: str) -> AcceptedRequest:
    """Store a request as a message and queue its run. Idempotent under the key.

    Raises NotFound (unknown model, session or response), InvalidInput, and what `services.receive` raises.
    """
    agent = access_agent(principal.user, parsed.model)
    if parsed.options.client_tools:
        client_calls.check_names(parsed.options.client_tools, agent.agent_id)
    if parsed.outputs:
        return _accept_outputs(principal, parsed, idempotency_key, agent)
    previous = previous_run(principal.user, parsed) if parsed.previous and not parsed.session else None
    # A run that waits for its user goes on with the answer: the response begins behind the steps that it has made.
    first_step = 0 if previous is None or previous.status.is_terminal else len(agents.get_transcript(previous.id).steps)
    session = _session_of(principal.user, parsed, idempotency_key, previous, agent)
    cursor = cursor_now(session.id)
    if not (parsed.conversation and parsed.history):
        with uploads.unsent_discarded(client_sessions.upload_parts(principal.user, parsed.files)) as files:
            accepted = _receive(principal.user, session, parsed, idempotency_key, files)
        request = _accepted(accepted, cursor, session, parsed)
        is_same_run = previous is not None and accepted.run_id == previous.id
        return replace(request, first_step=first_step) if is_same_run else request
    with (
        client_sessions.uploaded_files(principal.user, parsed.history) as earlier,
        uploads.unsent_discarded(client_sessions.upload_parts(principal.user, parsed.files)) as files,
        transaction.atomic(),  # the earlier items and the message, or neither
    ):
        services.append_history(session, parsed.history, earlier)
        accepted = _receive(principal.user, session, parsed, idempotency_key, files)
        transaction.set_rollback(accepted.is_duplicate)
    return _accepted(accepted, cursor, session, parsed)


def _receive(
    user: User, session: Session, parsed: ParsedRequest, idempotency_key: str, files: tuple[UUID, ...]
) -> Accepted:
    busy = "queue" if parsed.conversation else ""  # a response of its own: it does not join an open one
    return services.receive(
        NewMessage.into(session, parsed.text, attachments=files, attachments_digest=digest_of(parsed.files)),
        owner=user,
        session=session,
        idempotency_key=idempotency_key,
        options=services.ReceiveOptions(run=parsed.options, longest_text=LONGEST_TEXT, busy=busy),
    )


def _accepted(accepted: Accepted, cursor: str, session: Session, parsed: ParsedRequest) -> AcceptedRequest:
    if accepted.session_id != session.id:
        raise NotFound("The conversation with the answer to this key was deleted.", code="answer_deleted")
    created_at = accepted.created_at or agents.get_run(accepted.run_id).created_at
    watched_from = "" if accepted.is_duplicate else cursor
    return _request(session, accepted.run_id, created_at, watched_from, parsed.options.output_schema)


def _request(
    session: Session, run_id: UUID, created_at: datetime, cursor: str, own_schema: dict[str, Any] | None
) -> AcceptedRequest:
    """Return the request of a run. own_schema: JSON Schema of the request."""
    schema = session.agent.output_schema if own_schema is None else own_schema
    created, is_stored = int(created_at.timestamp()), not session.is_temporary
    return AcceptedRequest(session.id, session.key, run_id, cursor, created, schema, is_stored=is_stored)


def _accept_outputs(principal: Principal, parsed: ParsedRequest, idempotency_key: str, agent: Agent) -> AcceptedRequest:
    """Continue the run that waits for the outputs; without one, answer the conversation that was sent.

    Raises InvalidInput (unknown_tool_call) if the calls are none of ours and the conversation does not contain them.
    """
    user = principal.user
    param = "input" if parsed.previous else "messages"
    if parsed.previous:
        previous_run(user, parsed)
    conversation = conversations.access_conversation(user, parsed.conversation) if parsed.conversation else None
    calls = client_calls.find(user, parsed.outputs, parsed.model, param)
    if calls and (conversation is None or conversation.pk == calls.session_id):
        session = access_session(user, calls.session_id)
        parsed = _as_stored(parsed, is_stored=not session.is_temporary)
        cursor = "" if calls.are_answered else cursor_now(session.id)
        if not (cursor and runs.answer_client_calls(calls.run_id, calls.outputs, options=parsed.options)):
            cursor = ""  # an earlier request brought the outputs: its answer may have begun
        run = agents.get_run(calls.run_id)
        request = _request(session, run.id, run.created_at, cursor, parsed.options.output_schema)
        return replace(request, first_step=calls.step + 1)
    if parsed.conversation:
        message = "No call of this conversation waits for these outputs. Send a message instead."
        raise invalid_param(message, "input", "unknown_tool_call")
    client_calls.check_contained(parsed.outputs, parsed.history, param)
    session = _own_session(user, parsed, list(parsed.history), idempotency_key, agent)
    cursor = cursor_now(session.id)
    accepted = services.answer_history(session, owner=user, actor=principal.actor, options=parsed.options)
    return _accepted(accepted, cursor, session, parsed)


def accept_retry(user: User, run_id: UUID) -> AcceptedRequest:
    """Return a request that was stored before, by its run. Raises NotFound."""
    run = access_run(user, run_id)
    session = access_session(user, run.conversation_id)
    return _request(session, run.id, run.created_at, "", agents.get_options(run.id).output_schema)


def _as_stored(parsed: ParsedRequest, *, is_stored: bool) -> ParsedRequest:
    """Return a request whose response says whether its conversation is stored: outputs of tools continue what is."""
    note = {**(parsed.options.note or {}).get(NAME, {}), "store": is_stored}
    return replace(parsed, store=is_stored, options=replace(parsed.options, note={NAME: note}))


def run_of(user: User, response_id: str, *, or_unstored: bool = False) -> tuple[UUID, int]:
    """Return the run that a response of the user shows, and the step with which it begins. Raises NotFound.

    or_unstored: also of one that is not stored.
    """
    run_id, step = response_id.removeprefix("resp_")[:_HEX], response_id.removeprefix("resp_")[_HEX:]
    try:
        run = agents.get_run(UUID(hex=run_id))
        session = access_session(user, run.conversation_id)
        if or_unstored or not session.is_temporary:
            return run.id, int(step or 0)
    except (NotFound, ValueError):
        pass
    raise NotFound(f"There is no response {response_id!r}.", code="response_not_found")


def previous_run(user: User, parsed: ParsedRequest) -> RunView:
    """Return the run of the response that a request continues. Raises NotFound (previous_response_not_found)."""
    try:
        return agents.get_run(run_of(user, parsed.previous, or_unstored=parsed.keeps_previous)[0])
    except NotFound:
        message = f"Previous response with id {parsed.previous!r} not found."
        raise NotFound(message, code="previous_response_not_found", param="previous_response_id") from None


def _session_of(user: User, parsed: ParsedRequest, idempotency_key: str, run: RunView | None, agent: Agent) -> Session:
    """Return the session of a request.

    run: that of the response which it continues.
    agent: the agent that the request names.
    """
    if parsed.session and parsed.previous:
        message = "Send either metadata.session_id or previous_response_id, not both."
        raise invalid_param(message, "previous_response_id")
    if parsed.conversation:
        return _bound(user, conversations.access_conversation(user, parsed.conversation), parsed)
    if parsed.session:
        session = access_session(user, parsed.session)
        _check_agent(session, parsed)
        if parsed.options.client_tools and (waiting := agents.find_open_run(session.id)):
            runs.leave_client_calls(waiting.id)
        return session
    if run is None:
        return _own_session(user, parsed, list(parsed.history), idempotency_key, agent)
    if not run.status.is_terminal:
        runs.leave_client_calls(run.id)
    session, before = continued(user, run)
    is_alike = session.is_temporary != parsed.store
    if is_alike and not before and not parsed.history:  # no request has continued that response yet
        _check_agent(session, parsed)
        return session
    before = before or turns_until(run)
    return _own_session(user, parsed, [*before, *parsed.history], idempotency_key, agent)


def _bound(user: User, session: Session, parsed: ParsedRequest) -> Session:
    """Return the session of a conversation, bound to the agent that the request names."""
    if waiting := agents.find_open_run(session.id):
        runs.leave_client_calls(waiting.id)
    if session.agent.agent_id == parsed.model:
        return session
    return services.bind_session(session, access_agent(user, parsed.model))


def continued(user: User, run: RunView) -> tuple[Session, list[Turn]]:
    """Return the session of a run, and its turns up to that run if the session goes on with others."""
    session = access_session(user, run.conversation_id)
    is_last = session.next_ordinal == run.ordinal + 1 and not branches.is_off_path(session, run.id)
    return session, [] if is_last else turns_until(run)


def _check_agent(session: Session, parsed: ParsedRequest) -> None:
    if session.agent.agent_id != parsed.model:
        raise invalid_param(f"That conversation belongs to the agent {session.agent.agent_id!r}.", "model")


def turns_until(run: RunView) -> list[Turn]:
    """Return the turns of a session up to a run and with it, on the path of that run."""
    session_id = run.conversation_id
    path = branches.turns_of(session_id, branches.branch_of_run(session_id, run.ordinal))
    turns = Turn.objects.filter(path, session_id=session_id, ordinal__lte=run.ordinal).exclude(state="error")
    return list(turns.order_by("ordinal", "part"))


def _own_session(
    user: User, parsed: ParsedRequest, history: list[Message | Turn], idempotency_key: str, agent: Agent
) -> Session:
    """Open a session with the agent; return the same one when the request is repeated under its key."""
    thread_id = client_sessions.thread_id_of(idempotency_key) if idempotency_key else ""
    return client_sessions.open_session(
        user, parsed.model, thread_id, history, {NAME: {}}, agent=agent, is_temporary=not parsed.store
    )
