"""Requests about what a model would read: the tokens of an input, and its summary. Synchronous."""

from typing import Any

from django.contrib.auth.models import User

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.types import Message
from audit_app.kernel.ids import new_id
from sessions_app import services
from sessions_app.access import access_agent, access_session
from sessions_app.conversation import history
from sessions_app.identity.principal import Principal
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Checkpoint, Session, Turn
from sessions_app.surfaces.base import client_calls, client_sessions
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.openai import compaction_items, conversations, responses
from sessions_app.surfaces.openai.commands import AcceptedRequest, continued, previous_run, turns_until
from sessions_app.surfaces.openai.requests import NAME, ParsedRequest


def count_tokens(user: User, parsed: ParsedRequest) -> int:
    """Return the estimated tokens of the next model call: the agent's prompt and tools, the conversation, the input.

    Writes nothing. Raises NotFound, InvalidInput.
    """
    session, turns = _conversation_of(user, parsed)
    agent = access_agent(user, parsed.model or (session.agent.agent_id if session else ""))
    client_calls.check_names(parsed.options.client_tools or (), agent.agent_id)
    place = (session.id, session.next_ordinal) if session and not turns else (new_id(), 0)
    messages = [*history.messages_of(turns), *parsed.history]
    return runs.context_usage(agent, *place, options=parsed.options, messages=messages).used


def begin_compaction(principal: Principal, parsed: ParsedRequest) -> AcceptedRequest:
    """Store the conversation in a session of its own, and queue the run that summarises it.

    Raises NotFound, InvalidInput, and what `services.compact_session` raises.
    """
    access_agent(principal.user, parsed.model)
    if parsed.conversation:
        message = "Name the conversation by a response of it, as previous_response_id."
        raise invalid_param(message, "conversation", "unsupported_parameter")
    if parsed.session:
        raise invalid_param("Compact a session by POST /api/sessions/{id}/compact.", "metadata")
    earlier = turns_until(previous_run(principal.user, parsed)) if parsed.previous else []
    messages: list[Message | Turn] = [*earlier, *parsed.history]
    if not messages:
        raise invalid_param("The input has no message to compact.", "input")
    session = client_sessions.open_session(principal.user, parsed.model, "", messages, {NAME: {}})
    cursor = cursor_now(session.id)
    run = agents.get_run(services.compact_session(session, actor=principal.actor))
    return AcceptedRequest(session.id, session.key, run.id, cursor, int(run.created_at.timestamp()))


def read_compaction(request: AcceptedRequest) -> dict[str, Any] | None:
    """Return the messages of the user, and the summary; None if there is no summary."""
    checkpoint = Checkpoint.objects.filter(run_id=request.run_id).first()
    if checkpoint is None:
        return None
    users = Turn.objects.filter(session_id=request.session_id, role="user").exclude(content="").order_by("part")
    return {
        "id": f"resp_{request.run_id.hex}",
        "object": "response.compaction",
        "created_at": request.created,
        "output": [
            *(responses.user_item(turn.pk, turn.content) for turn in users),
            compaction_items.item_of(request.run_id, checkpoint.summary),
        ],
        "usage": responses.usage_of(agents.get_transcript(request.run_id).usage),
    }


def _conversation_of(user: User, parsed: ParsedRequest) -> tuple[Session | None, list[Turn]]:
    """Return the session that a request continues, and its turns if it continues from an earlier place of it."""
    if parsed.previous:
        return continued(user, previous_run(user, parsed))
    if parsed.conversation:
        return conversations.access_conversation(user, parsed.conversation), []
    return (access_session(user, parsed.session) if parsed.session else None), []
