"""The session of a routed message, and the options with which the message is received."""

from typing import Any

from agents_app import selectors as agents
from agents_app.network_runs import library
from agents_app.services import DEFAULT_OPTIONS
from agents_app.types import RunOptions
from sessions_app import hot_queries
from sessions_app.channels import routes
from sessions_app.channels.routes import Routing
from sessions_app.conversation.session_key import SessionKey
from sessions_app.conversation.sessions import ROUTED
from sessions_app.models import Session
from sessions_app.services import ReceiveOptions, bind_session


def follow(key: SessionKey, routing: Routing) -> Session | None:
    """Return the session of that key, moved to the agent of the route. None if there is none yet.

    One that no route has moved keeps its agent. Raises NotFound for a retired agent.
    """
    session = hot_queries.FIND_SESSION_BY_KEY.first(key=str(key))
    if session is None:
        return None
    was_routed = ROUTED in session.metadata
    is_there = routing.is_routed == was_routed and session.agent.agent_id == routing.agent_id
    if is_there or not (routing.is_routed or was_routed):
        return session
    return bind_session(session, agents.get_agent(routing.agent_id), is_routed=routing.is_routed)


def options_of(routing: Routing, channel: str, **more: Any) -> ReceiveOptions:
    """Return the options of a message on the channel of this name. more: further ones.

    Raises what `routes.check_channel` raises.
    """
    network = routing.network
    if network:
        routes.check_channel(network, channel)
    options = RunOptions(network=library.options_of(network, None)) if network else DEFAULT_OPTIONS
    metadata = {ROUTED: True} if routing.is_routed else None
    return ReceiveOptions(busy="queue" if network else "", run=options, metadata=metadata, **more)


def answerer(session: Session, routing: Routing) -> str:
    """Return the name of the agent or network that the next message of the session gets."""
    if routing.network:
        return f"The network {routing.network.name}"
    is_left = ROUTED in session.metadata  # it goes back to the account's agent
    return routing.agent_name or (routing.agent_id if is_left else session.agent.name)
