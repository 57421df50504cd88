"""Messages to tasks, and their cancellation. Synchronous.

The id of a message is its idempotency key: a message that comes twice names the same task.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from agents_app import selectors as agents
from agents_app.types import RunView
from audit_app import timeline
from sessions_app import selectors, services
from sessions_app.access import access_session
from sessions_app.attachments import uploads
from sessions_app.conversation.new_message import QuestionClosed
from sessions_app.identity import rate_limits
from sessions_app.identity.actor_names import display_name
from sessions_app.models import Session
from sessions_app.services import Accepted, NewMessage, ReceiveOptions
from sessions_app.surfaces.a2a import asks, push_configs
from sessions_app.surfaces.a2a.errors import TaskNotCancelable, UnsupportedOperation
from sessions_app.surfaces.a2a.queries import (
    CONTEXT,
    NAME,
    Caller,
    access_task,
    context_id_of,
    find_context,
    thread_id_of,
)
from sessions_app.surfaces.a2a.requests import LONGEST_TEXT, SendRequest, answer_of, read_send, read_task_id
from sessions_app.surfaces.a2a.responses import AUTH_REQUIRED
from sessions_app.surfaces.base import client_sessions
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.base.message_files import digest_of


@dataclass(frozen=True)
class FollowedTask:
    """A task that a request follows. history_length: as the request wants it."""

    run_id: UUID
    session: Session
    history_length: int | None = None

    def read_cursor(self) -> str:
        """Return the cursor before the task's first event, the end if that is not kept any more."""
        first = timeline.find_first_of_run(self.run_id)
        return str(first.seq - 1 if first else timeline.find_head(self.session.pk))


def send(caller: Caller, params: Mapping[str, Any]) -> tuple[SendRequest, FollowedTask]:
    """Store a message. Raises TaskNotFound, UnsupportedOperation, InvalidInput and what `services.receive` raises."""
    caller.principal.require_write()
    rate_limits.take(rate_limits.chat_limit(), caller.principal.actor)
    request = read_send(params)
    key = f"{NAME}:{caller.agent.agent_id}:{request.message_id}"
    if known := selectors.find_received_run(caller.principal.user, key):
        run, session = access_task(caller, str(selectors.root_of(known)))  # an answer is a message to a workstream
    elif request.task_id:
        run, session = access_task(caller, request.task_id)
        _continue(caller, run, session, request, key)
    else:
        begun = _begin(caller, request, key)
        run, session = agents.get_run(begun.run_id), begun.session
    if request.push:
        push_configs.store(caller, run, session, request.push)
    return request, FollowedTask(run.id, session, request.history_length)


def cancel(caller: Caller, params: Mapping[str, Any]) -> FollowedTask:
    """Cancel a task with its workstreams. Raises TaskNotFound, TaskNotCancelable."""
    caller.principal.require_write()
    run, session = access_task(caller, read_task_id(params))
    if not services.cancel_session_runs(session, reason="Cancelled by the client.", run_id=run.id):
        raise TaskNotCancelable
    return FollowedTask(run.id, session)


def follow(caller: Caller, params: Mapping[str, Any]) -> FollowedTask:
    """Return the task of a SubscribeToTask request. Raises TaskNotFound, UnsupportedOperation if it has ended."""
    run, session = access_task(caller, read_task_id(params))
    if run.status.is_terminal:
        raise UnsupportedOperation("The task has ended: read it with GetTask.")
    return FollowedTask(run.id, session)


def _begin(caller: Caller, request: SendRequest, key: str) -> FollowedTask:
    """Start a task in the context that the message names, or in a new one."""
    user, agent, context_id = caller.principal.user, caller.agent, request.context_id
    session = find_context(caller, context_id) if context_id else None
    if session and session.agent_id != agent.pk:
        raise invalid_param("message.contextId names a context of another agent.", "message.contextId")
    named = {CONTEXT: context_id} if context_id else {}
    thread_id = thread_id_of(caller, context_id) if context_id else thread_id_of(caller, "", request.message_id)
    new = NewMessage(client_sessions.CHANNEL, "default", str(user.pk), display_name(user), request.text)
    message = NewMessage.into(session, request.text) if session else replace(new, thread_id=thread_id)
    busy = "queue" if agent.busy_policy == "steer" else ""  # a message without a task starts one
    options = ReceiveOptions(busy=busy, may_answer=False, metadata={NAME: named})
    accepted = _receive(caller, session, message, request, key, options)
    return FollowedTask(accepted.run_id, access_session(user, accepted.session_id), request.history_length)


def _continue(caller: Caller, run: RunView, session: Session, request: SendRequest, key: str) -> None:
    """Pass a message on to a task: as the answer to what it asks, else to the run as it works."""
    if request.context_id and request.context_id != context_id_of(session):
        raise invalid_param("message.contextId is not the one of the task.", "message.contextId")
    if run.status.is_terminal:
        raise UnsupportedOperation("The task has ended: send the message without taskId, in the same context.")
    # A client that was told of a request answers it, even if the task goes on for a moment in between.
    ask = asks.first_asks(caller.principal, [run], {session.pk: session}, also_running=True).get(run.id)
    if ask and ask.state == AUTH_REQUIRED:
        asks.decide(caller.principal, session, {run.id, *agents.list_descendant_ids(run.id)}, request)
        return

    def check_run(accepted: Accepted) -> None:
        if accepted.run_id != run.id:
            raise UnsupportedOperation("The task takes no message now: send it without taskId, in the same context.")

    message = NewMessage.into(session, answer_of(request) if ask else request.text)
    options = ReceiveOptions(answers=ask.id) if ask else ReceiveOptions(busy="steer", act=check_run, may_answer=False)
    try:
        _receive(caller, session, message, request, key, options)
    except QuestionClosed as error:
        raise UnsupportedOperation(error.message) from None


def _receive(
    caller: Caller,
    session: Session | None,
    message: NewMessage,
    request: SendRequest,
    key: str,
    options: ReceiveOptions,
) -> Accepted:
    user, digest = caller.principal.user, digest_of(request.files)
    stored = client_sessions.upload_parts(user, request.files)
    with uploads.unsent_discarded(stored) as file_ids:
        return services.receive(
            replace(message, message_id=request.message_id, attachments=file_ids, attachments_digest=digest),
            owner=user,
            session=session,
            agent_id=caller.agent.agent_id,
            idempotency_key=key,
            options=replace(options, longest_text=LONGEST_TEXT),
        )
