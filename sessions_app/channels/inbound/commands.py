"""The commands of text channels: /new, /stop, /status, /help; and how what gets no run is kept with its reason."""

from collections.abc import Callable

from django.db import IntegrityError, transaction

from agents_app import selectors as agents
from audit_app import services as audit
from sessions_app.channels.outbound.outbox import Destination, plan_notice
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import Session
from sessions_app.services import cancel_session_runs

_HELP = """I answer what you write. Commands:

- `/new`: begin a new conversation
- `/stop`: stop what I am working on
- `/status`: what I am working on
- `/approve`, `/deny`: decide what I ask for, if you may
- `/help`: this list"""


def record(
    arrival: InboundRecord,
    reason: str,
    destination: Destination,
    notice: str,
    *,
    kind: str = "notice",
    session: Session | None = None,
    act: Callable[[], None] | None = None,
) -> bool:
    """Keep a message that gets no run, with the reason, and answer it with a notice unless that is empty.

    act: done in the same transaction. False, and nothing done, when the message came before.
    """
    try:
        with transaction.atomic():
            arrival.claim_keys()
            arrival.row.session = session
            arrival.store(reason=reason)
            if act:
                act()
            if notice:
                plan_notice(destination, f"inbound:{arrival.row.pk}", notice, session=session, kind=kind)
        return True
    except IntegrityError:
        if arrival.find_earlier() is None:
            raise
        return False


def handle_command(arrival: InboundRecord, destination: Destination, key: SessionKey, text: str) -> None:
    """Do what the command says, once."""
    word, *rest = text.split(maxsplit=1)
    command = word.removeprefix("/")
    session = Session.objects.select_related("agent").filter(key=str(key)).first()
    reason = f"command_{command}"
    match command:
        case "new":
            told = "A new conversation begins. What was said before is kept."
            if rest:
                told += " Of what stands behind `/new` I read nothing: write it once more."
            record(arrival, reason, destination, told, session=session, act=lambda: _set_aside(session))
        case "stop":
            # Stopping takes locks of its own. Done twice at the same moment it does no harm; later it must not be.
            if arrival.find_earlier() is None:
                count = cancel_session_runs(session, reason="Stopped.") if session else 0
                record(arrival, reason, destination, "Stopped." if count else "Nothing is running.", session=session)
        case "status":
            record(arrival, reason, destination, _status(session), session=session)
        case "pair":
            record(arrival, reason, destination, "You may write to me already.", session=session)
        case _:
            record(arrival, reason, destination, _HELP, session=session)


def _set_aside(session: Session | None) -> None:
    """Free the sender's key: the next message opens a new session."""
    if session is None:
        return
    aside = SessionKey(session.channel, session.account_id, session.sender_id, f"before-{session.id}")
    Session.objects.filter(pk=session.pk, key=session.key).update(key=str(aside))
    audit.record("SessionSetAside", session_id=session.pk, session_key=session.key, agent_id=session.agent.agent_id)


def _status(session: Session | None) -> str:
    if session is None:
        return "There is no conversation yet. Write me something."
    active, *waiting = agents.list_open_runs(session.pk) or [None]
    if active is None:
        return f"Nothing is running. {session.agent.name} answers here."
    more = f" {len(waiting)} more messages wait." if waiting else ""
    return f"{session.agent.name} is working on your message.{more}"
