"""Requests about what a model would read: the tokens of an input, and its summary. Synchronous."""

from django.contrib.auth.models import User

from agents_app import selectors as agents
from agents_app import services as runs
from audit_app.kernel.ids import new_id
from sessions_app.access import access_agent, access_session
from sessions_app.conversation import history
from sessions_app.models import Session, Turn
from sessions_app.surfaces.base import client_calls
from sessions_app.surfaces.openai.commands import continued, run_of
from sessions_app.surfaces.openai.requests import ParsedRequest


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


def _conversation_of(user: User, parsed: ParsedRequest) -> tuple[Session | None, list[Turn]]:
    """Return the session that a request continues, and its turns if it continues from an earlier place of it."""
    if parsed.previous:
        return continued(user, agents.get_run(run_of(user, parsed.previous)[0]))
    return (access_session(user, parsed.session) if parsed.session else None), []
