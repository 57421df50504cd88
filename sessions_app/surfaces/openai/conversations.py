"""Conversations: sessions under the ids of this protocol, with labels of their client. Synchronous.

A conversation has an agent from its creation on, because a session has one; each response binds the one that it names.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from agents_app.models import Agent
from agents_app.types import Message
from audit_app.kernel.errors import NotFound
from sessions_app import services
from sessions_app.access import access_agent, access_session, find_agents
from sessions_app.conversation.session_key import STORED_CHANNELS
from sessions_app.models import Session, Turn
from sessions_app.surfaces.base import client_sessions
from sessions_app.surfaces.base.function_tools import invalid_param
from sessions_app.surfaces.openai.body_schemas import MOST_ITEMS
from sessions_app.surfaces.openai.chat_messages import read_messages
from sessions_app.surfaces.openai.item_references import resolve_references
from sessions_app.surfaces.openai.requests import NAME

_PREFIX = "conv_"
_LABELS = "labels"  # key of the surface's data in a session's metadata
_DEFAULT_AGENT = "default"


def id_of(session_id: UUID) -> str:
    return f"{_PREFIX}{session_id.hex}"


def as_sent(session: Session) -> dict[str, Any]:
    """Return a conversation as the API reference has it."""
    labels = session.metadata.get(NAME, {}).get(_LABELS, {})
    times = {"created_at": int(session.created_at.timestamp())}
    return {"id": id_of(session.pk), "object": "conversation", **times, "metadata": labels}


def access_conversation(user: User, conversation_id: str) -> Session:
    """Return the session that a conversation of the user is. Raises NotFound (conversation_not_found).

    Sessions of channels are none: their people read them elsewhere.
    """
    try:
        session = access_session(user, UUID(hex=conversation_id.removeprefix(_PREFIX)))
        if session.channel in STORED_CHANNELS and not session.is_temporary:
            return session
    except (NotFound, ValueError):
        pass
    message = f"Conversation with id {conversation_id!r} not found."
    raise NotFound(message, code="conversation_not_found", param="conversation")


def create(user: User, labels: Mapping[str, str], items: Sequence[Message]) -> Session:
    """Open a conversation with the first items. Raises NotFound if the user may use no agent."""
    agent = _first_agent(user)
    return client_sessions.open_session(user, agent.agent_id, "", items, {NAME: {_LABELS: dict(labels)}})


def update(session: Session, labels: Mapping[str, str]) -> None:
    """Replace the labels of a conversation."""
    services.set_surface_data(session, NAME, {**session.metadata.get(NAME, {}), _LABELS: dict(labels)})


def read_items(user: User, given: Any) -> tuple[Message, ...]:
    """Return the messages of items to add. Raises InvalidInput, NotFound (item_not_found)."""
    if isinstance(given, list) and len(given) > MOST_ITEMS:
        raise invalid_param(f"At most {MOST_ITEMS} items can be added at a time.", "items")
    resolved = resolve_references(user, {"input": given})["input"]
    return read_messages(resolved, "items")


def add_items(user: User, session: Session, items: Sequence[Message]) -> list[Turn]:
    """Store items behind the last ones. Return their turns. Raises RunBusy while a response is open."""
    with client_sessions.uploaded_files(user, items) as files:
        return services.append_history(session, items, files)


def _first_agent(user: User) -> Agent:
    """Return the agent of a new conversation: the default one, or else the first that the user may use."""
    usable = find_agents(user)
    return usable.filter(agent_id=_DEFAULT_AGENT).first() or usable.first() or access_agent(user, _DEFAULT_AGENT)
