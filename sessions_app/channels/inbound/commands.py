"""The commands of text channels, such as /new, /agent and /help; and storing messages that get no run."""

from collections.abc import Callable, Sequence

from django.db import IntegrityError, transaction

from agents_app import selectors as agents
from agents_app.models import Agent
from audit_app.kernel.errors import AppError
from sessions_app.channels import routes
from sessions_app.channels.command_list import HELP
from sessions_app.channels.inbound import refusals, routed_session
from sessions_app.channels.outbound.outbox import Destination, plan_notice
from sessions_app.channels.routes import Place
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.session_key import SessionKey
from sessions_app.conversation.sessions import set_aside
from sessions_app.models import Session
from sessions_app.platforms.sender_actors import sender_actor
from sessions_app.services import cancel_session_runs, compact_session

_FIXED = "The operator has chosen who answers here."
_DEFAULT = "default"


def record(
    arrival: InboundRecord,
    reason: str,
    destination: Destination,
    notice: str,
    *,
    session: Session | None = None,
    act: Callable[[], object] | None = None,
) -> None:
    """Store a message that gets no run, with the reason, and reply with the notice unless it is empty.

    act: called in the same transaction. Owns its transaction. Does nothing for a duplicate.
    """
    try:
        with transaction.atomic():
            arrival.claim_keys()
            refusals.record(arrival.row.account, arrival.row.sender_id, reason)
            arrival.row.session = session
            arrival.store(reason=reason)
            if act:
                act()
            if notice:
                plan_notice(destination, f"inbound:{arrival.row.pk}", notice, session=session)
    except IntegrityError:
        if arrival.find_earlier() is None:
            raise


def handle_command(arrival: InboundRecord, destination: Destination, key: SessionKey, text: str) -> None:
    """Carry out a command, once."""
    name, *rest = text.split(maxsplit=1)
    command = name.removeprefix("/")
    session = Session.objects.select_related("agent").filter(key=str(key)).first()
    reason = f"command_{command}"
    row, is_direct = arrival.row, destination.target.chat.type == "direct"
    place = routes.Place(destination.account, row.chat_id, row.sender_id, is_direct)
    match command:
        case "new":
            reply = "Started a new conversation. The previous one is kept."
            if rest:
                reply += " I ignored the text after `/new`. Please send it again."
            record(arrival, reason, destination, reply, session=session, act=lambda: _set_aside(session))
        case "stop":
            # Stopping takes locks of its own, so it is outside of `record`. A concurrent duplicate is harmless; a later
            # one would stop the next run.
            if arrival.find_earlier() is None:
                count = cancel_session_runs(session, reason="Stopped.") if session else 0
                record(arrival, reason, destination, "Stopped." if count else "Nothing is running.", session=session)
        case "compact":
            # Idempotent while its run is open, and later ones find nothing to summarise.
            if arrival.find_earlier() is None:
                record(arrival, reason, destination, _compact(session, arrival), session=session)
        case "agent":
            reply, act = _choose_agent(place, " ".join(rest).strip())
            record(arrival, reason, destination, reply, session=session, act=act)
        case "status":
            record(arrival, reason, destination, _status(session, routes.find(place)), session=session)
        case "pair":
            record(arrival, reason, destination, "You are already paired.", session=session)
        case _:
            record(arrival, reason, destination, HELP, session=session)


def _set_aside(session: Session | None) -> None:
    """Free the sender's key: the next message opens a new session."""
    if session is not None:
        set_aside(session)


def _compact(session: Session | None, arrival: InboundRecord) -> str:
    """Have the earlier messages summarised. Return the reply."""
    if session is None:
        return "There is no conversation yet. Send me a message."
    try:
        compact_session(session, actor=sender_actor(session.channel, session.account_id, arrival.row.sender_id))
    except AppError as error:
        return error.message
    return "I will summarise the earlier messages. They are kept."


def _status(session: Session | None, routing: routes.Routing) -> str:
    if session is None:
        return "There is no conversation yet. Send me a message."
    active, *waiting = agents.list_open_runs(session.pk) or [None]
    if active is None:
        return f"Nothing is running. {routed_session.answerer(session, routing)} answers here."
    more = f" {len(waiting)} more messages are waiting." if waiting else ""
    return f"{session.agent.name} is working on your message.{more}"


def _choose_agent(place: Place, wanted: str) -> tuple[str, Callable[[], object] | None]:
    """Return the reply to `/agent`, and the function that stores the choice, called in the transaction of the reply."""
    choosable = routes.list_choosable(place.account)
    if not choosable or routes.is_fixed(place):
        return _FIXED, None
    if not wanted:
        return _agents_here(place, choosable), None
    if wanted.lower() == _DEFAULT:
        return "The operator's choice answers here again.", lambda: routes.forget_choice(place)
    found = [agent for agent in choosable if wanted.lower() in (agent.agent_id.lower(), agent.name.lower())]
    if len(found) != 1:
        return f"There is no such agent to choose.\n\n{_agents_here(place, choosable)}", None
    reply = f"{found[0].name} answers here from now on. The conversation continues; `/new` starts a new one."
    return reply, lambda: routes.choose(place, found[0])


def _agents_here(place: Place, choosable: Sequence[Agent]) -> str:
    routing = routes.find(place)
    current = "" if routing.network else routing.agent_id
    lines = [f"- `{agent.agent_id}`: {agent.name}{' (now)' * (agent.agent_id == current)}" for agent in choosable]
    return "\n".join(["Agents here:\n", *lines, "\nChoose one by `/agent NAME`; `/agent default` goes back."])
