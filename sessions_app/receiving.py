"""Takes messages in, from whatever channel: dedup, session, user turn and run in one transaction."""

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
from agents_app.models import Run
from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import Forbidden, InvalidInput
from audit_app.vocabulary import Fact
from sessions_app import events
from sessions_app.arrivals import Arrival
from sessions_app.keys import SessionKey
from sessions_app.models import Session, Turn
from sessions_app.opening import fact_about, find_or_open, lock_seen

LONGEST_TEXT = 10_000
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
    author_id: str = ""  # who wrote it, where the sender of the session is a group

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


@dataclass(frozen=True)
class _Message:
    """A checked message. key: unique over all callers, or None; digest: of what it says and where it goes."""

    inbound: Inbound
    text: str
    owner: User | None
    key: str | None
    digest: str
    arrival: Arrival | None = None

    @property
    def actor(self) -> str:
        author = self.inbound.author_id or self.inbound.sender_id
        return context.actor.get() if self.owner else f"sender:{self.inbound.channel}:{author}"


def receive(
    inbound: Inbound,
    *,
    owner: User | None,
    session: Session | None = None,
    agent_id: str = "default",
    idempotency_key: str = "",
    busy: str = "",
    arrival: Arrival | None = None,
) -> Accepted:
    """Take a message in. Nothing is stored when it raises.

    owner: the user it acts for (None: a channel's sender); session: write into this one instead of the sender's
    current; agent_id: for a new session. busy: what a session with an open run does (empty: as its agent says):
    `queue` (wait in line), `reject`, `interrupt` (stop what runs, keeping its text), `steer` (join the open run).
    The same idempotency key with the same message gives the first result. arrival: how it came through a channel,
    stored in the same transaction; whatever has one of its keys again gives the first result too.
    Raises InvalidInput (text_required, text_too_long, channel_mismatch), NotFound (another owner's session, unknown
    agent), Forbidden, RunBusy, QueueFull, IdempotencyMismatch.
    """
    message = _checked(inbound, owner, session, idempotency_key, arrival)
    if prior := _find_prior(message):
        # Whoever took it in may have died before it stopped what ran.
        _interrupt_earlier(prior, busy or _policy_of(prior.session_id))
        return prior
    try:
        with transaction.atomic():
            accepted, policy = _accept(message, session, agent_id, busy)
    except IntegrityError:
        # The same key came in twice at once; whoever was first has stored it by now.
        if prior := _find_prior(message) or _find_earlier(message.arrival):
            return prior
        raise
    _interrupt_earlier(accepted, policy)
    return accepted


def _interrupt_earlier(accepted: Accepted, policy: str) -> None:
    """Stop what stands before the message, if that is the policy; a second call finds nothing to stop."""
    if policy == "interrupt":
        runs.cancel_earlier_runs(accepted.session_id, accepted.ordinal, reason="Interrupted by a newer message.")


def _policy_of(session_id: UUID) -> str:
    return Session.objects.select_related("agent").get(pk=session_id).agent.busy_policy


def _accept(message: _Message, session: Session | None, agent_id: str, busy: str) -> tuple[Accepted, str]:
    facts: list[Fact] = []
    if message.arrival:
        message.arrival.claim_keys()
    if session is None:
        session, facts = find_or_open(message.inbound.key, message.owner, message.inbound.sender_name, agent_id)
    _check_channel(session, message.inbound.channel)
    policy = busy or session.agent.busy_policy
    steered = runs.steer_open_run(session.id) if policy == "steer" else None
    if steered is not None:
        # The run's row is locked now, the session's is not: its place in the turns is the run's to give.
        return _store(message, session, steered, steered.words - 1, facts), policy
    session = lock_seen(session)
    _refuse_when_busy(session, policy)
    run, queued = runs.start_run(
        conversation_id=session.id, session_key=session.key, ordinal=session.next_ordinal, agent=session.agent,
        actor=message.actor,
    )  # fmt: skip
    return _store(message, session, run, 0, facts, queued), policy


def _store(
    message: _Message, session: Session, run: Run, part: int, facts: list[Fact], queued: list[Fact] | None = None
) -> Accepted:
    now = timezone.now()
    turn = Turn(
        session=session, run=run, ordinal=run.ordinal, part=part, role="user", content=message.text, created_at=now,
        idempotency_key=message.key, body_digest=message.digest,
    )  # fmt: skip
    turn.save(force_insert=True)
    if message.arrival:
        message.arrival.store(turn=turn)
    Session.objects.filter(pk=session.id).update(
        message_count=F("message_count") + 1, next_ordinal=F("next_ordinal") + (1 if queued else 0),
        last_active_at=now, title=session.title or _title_of(message.text),
    )  # fmt: skip
    received = {"turn_id": str(turn.id), "message_id": message.inbound.message_id or str(turn.id)}
    facts.append(fact_about(session, events.MESSAGE_RECEIVED, received, actor=message.actor, run_id=run.id))
    audit.emit([*facts, *(queued or [])])
    return Accepted(session.id, session.key, turn.id, run.id, run.ordinal)


def _checked(
    inbound: Inbound, owner: User | None, session: Session | None, idempotency_key: str, arrival: Arrival | None
) -> _Message:
    text = inbound.text.replace("\0", "").strip()
    if not text:
        raise InvalidInput("The message has no text.", code="text_required")
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(
            f"The message has {len(text):,} characters; at most {LONGEST_TEXT:,} are allowed.", code="text_too_long"
        )
    where = str(session.id if session else inbound.key)
    digest = hashlib.sha256(f"{where}\0{text}".encode()).hexdigest()
    return _Message(inbound, text, owner, _scoped_key(inbound, owner, idempotency_key), digest, arrival)


def _scoped_key(inbound: Inbound, owner: User | None, idempotency_key: str) -> str | None:
    """Keys of different callers never meet. Hashed, because a caller's key may be of any length."""
    if not idempotency_key:
        return None
    scope = f"user:{owner.pk}" if owner else f"{inbound.channel}:{inbound.account_id}"
    return hashlib.sha256(f"{scope}\0{idempotency_key}".encode()).hexdigest()


def _find_prior(message: _Message) -> Accepted | None:
    """What became of the message the first time. Raises IdempotencyMismatch when that was another message."""
    if message.key is None:
        return None
    turn = Turn.objects.select_related("session", "run").filter(idempotency_key=message.key).first()
    if turn is None or turn.run is None:
        return None
    if turn.body_digest != message.digest:
        raise IdempotencyMismatch
    return Accepted(turn.session_id, turn.session.key, turn.id, turn.run.id, turn.ordinal, is_duplicate=True)


def _find_earlier(arrival: Arrival | None) -> Accepted | None:
    """The same for a message that a channel delivers again. Asked only when its keys are taken: that is rare."""
    earlier = arrival.find_earlier() if arrival else None
    if earlier is None or earlier.turn is None or earlier.session is None or earlier.run_id is None:
        return None
    session, turn = earlier.session, earlier.turn
    return Accepted(session.id, session.key, turn.id, earlier.run_id, turn.ordinal, is_duplicate=True)


def _check_channel(session: Session, channel: str) -> None:
    if session.channel != channel:
        raise InvalidInput(f"Session {session.key} belongs to channel {session.channel}.", code="channel_mismatch")
    allowed = session.agent.allowed_channels
    if allowed and channel not in allowed:
        raise Forbidden(f"The agent {session.agent.agent_id} does not serve {channel}.", code="channel_not_allowed")


def _refuse_when_busy(session: Session, policy: str) -> None:
    if policy == "interrupt":
        return
    open_runs = agents.count_open_runs(session.id)
    if open_runs and policy == "reject":
        raise RunBusy
    if open_runs > session.agent.queue_limit:
        raise QueueFull(
            f"{session.agent.queue_limit} messages wait in this session already. Send again when some are answered.",
            retry_after_seconds=_QUEUE_RETRY_SECONDS,
        )


def _title_of(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1].rstrip() + "…"
