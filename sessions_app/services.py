"""What people and channels do with sessions: send, open, bind, rename, delete, stop, retry."""

import hashlib
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.errors import IdempotencyMismatch, QueueFull, RunBusy
from agents_app.models import Agent, Run
from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import Forbidden, InvalidInput, NotFound
from audit_app.kernel.ids import new_id
from audit_app.vocabulary import EventType, Fact
from sessions_app import events
from sessions_app.keys import SessionKey
from sessions_app.models import Session, Turn

WEB_CHAT = "WebChat"
LONGEST_TEXT = 10_000
LONGEST_TITLE = 200
_TITLE_LENGTH = 80
_QUEUE_RETRY_SECONDS = 10


@dataclass(frozen=True)
class Inbound:
    """A message as it came in. channel: spelled as in the sources; message_id: the sender's own, unique per account."""

    channel: str
    account_id: str
    sender_id: str
    sender_name: str
    text: str
    message_id: str = ""
    thread_id: str = ""

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.channel, self.account_id, self.sender_id, self.thread_id)


@dataclass(frozen=True)
class Accepted:
    """What became of a message: its turn and the run that answers it. ordinal: the run's place in the session."""

    session_id: UUID
    session_key: str
    turn_id: UUID
    run_id: UUID
    ordinal: int
    is_duplicate: bool = False


def receive(
    inbound: Inbound,
    *,
    owner: User | None,
    session: Session | None = None,
    agent_id: str = "default",
    idempotency_key: str = "",
    busy: str = "queue",
) -> Accepted:
    """Take a message in: session (made on first contact), user turn and queued run, in one transaction.

    owner: the user it acts for (None: a channel's sender); session: write into this one instead of the sender's
    current; agent_id: for a new session; busy: what a session with an open run does, `queue` or `reject`.
    The same idempotency key with the same message gives the first result. Raises InvalidInput (text_required,
    text_too_long, channel_mismatch), NotFound (another owner's session, unknown agent), Forbidden, RunBusy,
    QueueFull, IdempotencyMismatch. Nothing is stored when it raises.
    """
    text = _checked_text(inbound.text)
    key = _scoped_key(inbound, owner, idempotency_key)
    digest = hashlib.sha256("\0".join([str(session.id if session else inbound.key), text]).encode()).hexdigest()
    if key and (prior := agents.find_run_by_key(key)):
        return _first_result(prior, digest)
    try:
        with transaction.atomic():
            return _accept(inbound, text, owner, session, agent_id, key, digest, busy)
    except IntegrityError:
        # The same key came in twice at once; whoever was first has stored it by now.
        if key and (prior := agents.find_run_by_key(key)):
            return _first_result(prior, digest)
        raise


def _accept(
    inbound: Inbound,
    text: str,
    owner: User | None,
    session: Session | None,
    agent_id: str,
    key: str | None,
    digest: str,
    busy: str,
) -> Accepted:
    facts: list[Fact] = []
    if session is None:
        session, facts = _find_or_open(inbound.key, owner, inbound.sender_name, agent_id)
    session = _locked(session.id)
    if session.channel != inbound.channel:
        raise InvalidInput(f"Session {session.key} belongs to channel {session.channel}.", code="channel_mismatch")
    if session.agent.allowed_channels and inbound.channel not in session.agent.allowed_channels:
        raise Forbidden(
            f"The agent {session.agent.agent_id} does not serve {inbound.channel}.",
            code="channel_not_allowed",
        )
    _refuse_when_busy(session, busy)
    actor = context.actor.get() if owner else f"sender:{inbound.channel}:{inbound.sender_id}"
    run, queued = runs.start_run(
        conversation_id=session.id, session_key=session.key, ordinal=session.next_ordinal, agent=session.agent,
        actor=actor, idempotency_key=key, body_digest=digest,
    )  # fmt: skip
    now = timezone.now()
    turn = Turn(session=session, run=run, ordinal=run.ordinal, part=0, role="user", content=text, created_at=now)
    turn.save(force_insert=True)
    Session.objects.filter(pk=session.id).update(
        next_ordinal=F("next_ordinal") + 1, message_count=F("message_count") + 1, last_active_at=now,
        title=session.title or _title_of(text),
    )  # fmt: skip
    received = {"turn_id": str(turn.id), "message_id": inbound.message_id or str(turn.id)}
    facts.append(_fact(session, events.MESSAGE_RECEIVED, received, actor=actor, run_id=run.id))
    audit.emit([*facts, *queued])
    return Accepted(session.id, session.key, turn.id, run.id, run.ordinal)


def open_session(*, owner: User, agent_id: str = "default", title: str = "") -> Session:
    """A new, empty web chat session of the user, beside those there are. Raises NotFound for an unknown agent."""
    key = SessionKey(WEB_CHAT, "default", str(owner.pk), str(new_id()))
    with transaction.atomic():
        session, facts = _open(key, owner, owner.get_full_name() or owner.username, agents.get_agent(agent_id), title)
        audit.emit(facts)
    return session


def bind_session(session: Session, agent_id: str) -> Session:
    """Route all later messages of the session to another agent. Raises NotFound for an unknown one."""
    agent = agents.get_agent(agent_id)
    with transaction.atomic():
        session = _locked(session.id)
        if session.agent_id != agent.pk:
            payload = {"agent_id": agent.agent_id, "previous": session.agent.agent_id}
            Session.objects.filter(pk=session.id).update(agent=agent)
            session.agent = agent
            audit.emit([_fact(session, events.SESSION_BOUND, payload)])
    return session


def rename_session(session: Session, title: str) -> None:
    """Raises InvalidInput for an empty or over-long title."""
    title = title.strip()
    if not 1 <= len(title) <= LONGEST_TITLE:
        raise InvalidInput("A title has 1 to 200 characters.", code="title_length")
    with transaction.atomic():
        Session.objects.filter(pk=session.id).update(title=title)


def delete_session(session: Session) -> None:
    """Stop what runs in it and hide it from its owner; the record stays for the operator. Its key becomes free."""
    cancel_session_runs(session, reason="The session was deleted.")
    freed = SessionKey(session.channel, session.account_id, session.sender_id, f"deleted-{session.id}")
    with transaction.atomic():
        Session.objects.filter(pk=session.id, deleted_at=None).update(deleted_at=timezone.now(), key=str(freed))
        audit.record("SessionDeleted", session_id=session.id, session_key=session.key, agent_id=session.agent.agent_id)


def cancel_session_runs(session: Session, *, reason: str, run_id: UUID | None = None) -> int:
    """Stop the session's open runs, or just the given one. The count that was asked to stop; 0 for a stale run id."""
    open_runs = agents.list_open_runs(session.id)
    # From the last to the first: stopping the first would only start the second.
    wanted = [run for run in reversed(open_runs) if run_id in (None, run.id)]
    return sum(runs.cancel_run(run.id, reason=reason) for run in wanted)


def retry_run(session: Session, run_id: UUID, *, actor: str) -> UUID:
    """Answer the message of a failed or stopped run again. Raises NotFound when it is not of this session, Conflict."""
    if not Run.objects.filter(pk=run_id, conversation_id=session.id).exists():
        raise NotFound("There is no such run in this session.")
    return runs.retry_run(run_id, actor=actor)


def _checked_text(text: str) -> str:
    text = text.replace("\0", "").strip()
    if not text:
        raise InvalidInput("The message has no text.", code="text_required")
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(
            f"The message has {len(text):,} characters; at most {LONGEST_TEXT:,} are allowed.",
            code="text_too_long",
        )
    return text


def _scoped_key(inbound: Inbound, owner: User | None, idempotency_key: str) -> str | None:
    """Keys of different callers never meet. Hashed, because a caller's key may be of any length."""
    if not idempotency_key:
        return None
    scope = f"user:{owner.pk}" if owner else f"{inbound.channel}:{inbound.account_id}"
    return hashlib.sha256(f"{scope}\0{idempotency_key}".encode()).hexdigest()


def _first_result(run: Run, digest: str) -> Accepted:
    if run.body_digest != digest:
        raise IdempotencyMismatch
    turn = Turn.objects.get(run=run, role="user", part=0)
    return Accepted(run.conversation_id, run.session_key, turn.id, run.id, run.ordinal, is_duplicate=True)


def _refuse_when_busy(session: Session, busy: str) -> None:
    open_runs = agents.count_open_runs(session.id)
    if open_runs and busy == "reject":
        raise RunBusy
    if open_runs > session.agent.queue_limit:
        raise QueueFull(
            f"{session.agent.queue_limit} messages wait in this session already. Send again when some are answered.",
            retry_after_seconds=_QUEUE_RETRY_SECONDS,
        )


def _find_or_open(key: SessionKey, owner: User | None, name: str, agent_id: str) -> tuple[Session, list[Fact]]:
    session = Session.objects.filter(key=str(key)).first()
    if session is None:
        try:
            with transaction.atomic():
                return _open(key, owner, name, agents.get_agent(agent_id), "")
        except IntegrityError:
            session = Session.objects.get(key=str(key))
    if owner is not None and session.owner_id != owner.pk:
        raise NotFound("There is no such session.")
    return session, []


def _open(key: SessionKey, owner: User | None, name: str, agent: Agent, title: str) -> tuple[Session, list[Fact]]:
    now = timezone.now()
    session = Session(
        key=str(key), channel=key.channel, account_id=key.account_id, sender_id=key.sender_id, sender_name=name,
        owner=owner, agent=agent, title=title, last_active_at=now, created_at=now,
    )  # fmt: skip
    session.save(force_insert=True)
    created = {"channel": key.channel, "agent_id": agent.agent_id}
    return session, [_fact(session, events.SESSION_CREATED, created)]


def _locked(session_id: UUID) -> Session:
    rows = Session.objects.select_for_update(of=("self",)).select_related("agent__provider")
    return rows.get(pk=session_id)


def _title_of(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1].rstrip() + "…"


def _fact(
    session: Session,
    event_type: EventType,
    payload: dict[str, str],
    *,
    actor: str = "",
    run_id: UUID | None = None,
) -> Fact:
    return Fact(
        event_type, session.id, dict(payload), run_id=run_id, actor=actor,
        agent_id=session.agent.agent_id, session_key=session.key,
    )  # fmt: skip
