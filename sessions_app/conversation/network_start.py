"""The start of a network by a user: a message whose run executes the network instead of calling a model."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser, User

from agents_app.models import StoredNetwork
from agents_app.network_runs import library
from agents_app.types import RunOptions
from audit_app.kernel.ids import new_id
from sessions_app.conversation.new_message import Accepted, NewMessage, ReceiveOptions
from sessions_app.conversation.receive_message import receive
from sessions_app.identity.scopes import usable_agents
from sessions_app.models import Session


def options_for(user: User | AnonymousUser, name: str, context: Mapping[str, Any] | None = None) -> RunOptions:
    """Return the options of a run that executes a network for the user. Raises as `library.get_runnable`."""
    stored = library.get_runnable(user, name, usable_agents(user))
    return RunOptions(network=library.options_of(stored, context))


def check_agents(user: User, options: RunOptions) -> None:
    """Raise UnusableFile if a run with these options executes a network with an agent that the user may not use now."""
    if options.network:
        library.read(options.network["definition"], usable_agents(user))


def start_network(
    stored: StoredNetwork,
    text: str,
    *,
    owner: User,
    context: Mapping[str, Any] | None = None,
    session: Session | None = None,
    idempotency_key: str = "",
) -> Accepted:
    """Start a network with a message, in a session or in a new one. Idempotent under the key.

    The caller has checked that the owner may run it and use its agents. Raises what `receive` raises.
    """
    run = RunOptions(network=library.options_of(stored, context))
    options = ReceiveOptions(busy="queue", run=run, may_answer=False)
    name = owner.get_username()
    thread_id = idempotency_key[:100] or str(new_id())
    message = NewMessage("WebChat", "default", str(owner.pk), name, text, thread_id=f"network-{thread_id}")
    if session is not None:
        message = NewMessage.into(session, text)
    return receive(message, owner=owner, session=session, idempotency_key=idempotency_key, options=options)
