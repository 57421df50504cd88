"""Takes messages in, from whatever channel: dedup, session, user turn and run in one transaction."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Case, F, Max, Value, When
from django.utils import timezone

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.errors import IdempotencyMismatch, QueueFull, RunBusy
from agents_app.models import Run
from agents_app.services import DEFAULT_OPTIONS
from agents_app.types import RunOptions
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.compiled_queries import CompiledInsert, CompiledUpdate
from audit_app.kernel.errors import Forbidden, InvalidInput
from audit_app.kernel.shorten import shorten
from sessions_app import events
from sessions_app.channels.attachments import records as attachments
from sessions_app.conversation import run_options
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.new_message import LONGEST_TEXT, Accepted, NewMessage, ValidatedMessage, validated
from sessions_app.conversation.sessions import fact_about, find_or_open, lock_seen
from sessions_app.models import Session, Turn
from tools_app import selectors as tools
from tools_app.services import Answered

_TITLE_LENGTH = 80
_QUEUE_RETRY_SECONDS = 10


def receive(
    inbound: NewMessage,
    *,
    owner: User | None,
    session: Session | None = None,
    agent_id: str = "default",
    idempotency_key: str = "",
    busy: str = "",
    arrival: InboundRecord | None = None,
    options: RunOptions = DEFAULT_OPTIONS,
    longest_text: int = LONGEST_TEXT,
    denied_tools: Sequence[str] = (),
    act: Callable[[], None] | None = None,
) -> Accepted:
    """Take a message in. Nothing is stored when it raises.

    owner: the user it acts for (None: a channel's sender); session: write into this one instead of the sender's
    current; agent_id: for a new session. busy: what a session with an open run does (empty: as its agent says):
    `queue` (wait in line), `reject`, `interrupt` (stop what runs, keeping its text), `steer` (join the open run). What
    a run asks its person comes before all of that: the message is the answer.
    The same idempotency key with the same message gives the first result. arrival: how it came through a channel,
    stored in the same transaction; whatever has one of its keys again gives the first result too. options: what the
    message asks of its run; longest_text: in characters; denied_tools: patterns of calls that its run may not make;
    act: done in the transaction that stores the message.
    Raises InvalidInput (text_required, text_too_long, session_id_too_long, channel_mismatch), NotFound (another owner's
    session, unknown agent), Forbidden, RunBusy, QueueFull, IdempotencyMismatch.
    """
    message = validated(inbound, owner, session, idempotency_key, arrival, options, longest_text)
    if prior := _find_prior(message):
        return _as_before(prior, busy)
    try:
        with transaction.atomic():
            accepted, policy = _accept(message, session, agent_id, busy, denied_tools)
            if act:
                act()
    except (IntegrityError, RunBusy, QueueFull):
        # The same key came in twice at once; whoever was first has stored it by now, and may be what keeps it busy.
        if prior := _find_prior(message) or _find_earlier(message.arrival):
            return _as_before(prior, busy)
        raise
    _interrupt_earlier(accepted, policy)
    return accepted


def _as_before(prior: Accepted, busy: str) -> Accepted:
    """The first result. Whoever took the message in may have died before it stopped what ran."""
    session = Session.objects.select_related("agent").get(pk=prior.session_id)
    _interrupt_earlier(prior, busy or session.agent.busy_policy)
    return prior


def _interrupt_earlier(accepted: Accepted, policy: str) -> None:
    """Stop what stands before the message, if that is the policy; a second call finds nothing to stop."""
    if policy == "interrupt":
        runs.cancel_earlier_runs(accepted.session_id, accepted.ordinal, reason="Interrupted by a newer message.")


def _accept(
    message: ValidatedMessage, session: Session | None, agent_id: str, busy: str, denied_tools: Sequence[str] = ()
) -> tuple[Accepted, str]:
    facts: list[NewEvent] = []
    if message.arrival:
        message.arrival.claim_keys()
    if session is None:
        session, facts = find_or_open(message.inbound.key, message.owner, message.inbound.sender_name, agent_id)
    _check_channel(session, message.inbound.channel)
    policy = busy or session.agent.busy_policy
    files = message.arrival.files if message.arrival else ()
    if answered := _answer(message, session):
        run, answer = answered
        answers = [str(answer.execution_id)]
        return _store(message, session, run, _next_part(run), [*facts, *answer.events], answers=answers), policy
    # A run under way does not wait for files and keeps its tools: a message with some, or its own, gets its own run.
    may_join = policy == "steer" and not files and not message.options.chooses_tools
    steered = runs.steer_open_run(session.id) if may_join else None
    if steered is not None:
        # The run's row is locked now, the session's is not: its place in the turns is the run's to give.
        return _store(message, session, steered, _next_part(steered), facts), policy
    session = lock_seen(session)
    _refuse_when_busy(session, policy)
    account = message.arrival.row.account.config if message.arrival else {}
    run, queued = runs.start_run(
        conversation_id=session.id,
        session_key=session.key,
        ordinal=session.next_ordinal,
        agent=session.agent,
        actor=message.actor,
        options=run_options.granted(message.options, message.owner, session),
        session_policy=run_options.taken_away(session, account, denied_tools),
    )
    return _store(message, session, run, 0, facts, queued), policy


def _answer(message: ValidatedMessage, session: Session) -> tuple[Run, Answered] | None:
    """The message as the answer to what the session's run asks its person, if it asks something."""
    question = tools.find_question(session.id)
    return runs.answer_input(question.run_id, message.text, actor=message.actor) if question else None


def _next_part(run: Run) -> int:
    """The next free place among a run's turns. Its row must be locked."""
    last = Turn.objects.filter(session_id=run.conversation_id, ordinal=run.ordinal).aggregate(last=Max("part"))["last"]
    return 0 if last is None else last + 1


def _store(
    message: ValidatedMessage,
    session: Session,
    run: Run,
    part: int,
    facts: list[NewEvent],
    queued: list[NewEvent] | None = None,
    *,
    answers: list[str] | None = None,
) -> Accepted:
    now = timezone.now()
    turn = Turn(
        session=session,
        run=run,
        ordinal=run.ordinal,
        part=part,
        role="user",
        content=message.text,
        created_at=now,
        idempotency_key=message.key,
        body_digest=message.digest,
        tool_call_ids=answers,
    )
    _NEW_TURN.run([turn])
    if message.arrival:
        message.arrival.store(turn=turn)
        if files := message.arrival.files:
            is_album = bool(message.arrival.album_id)
            attachments.add(turn, message.arrival.row.account, files, is_album=is_album)
    _COUNT_ON.run(session.id, 1 if queued else 0, now, shorten(message.text.split("\n", 1)[0], _TITLE_LENGTH))
    received: dict[str, Any] = {"turn_id": str(turn.id), "message_id": message.inbound.message_id or str(turn.id)}
    if message.inbound.note:
        received["note"] = dict(message.inbound.note)
    facts.append(fact_about(session, events.MESSAGE_RECEIVED, received, actor=message.actor, run_id=run.id))
    audit.emit([*facts, *(queued or [])])
    return Accepted(session.id, session.key, turn.id, run.id, run.ordinal)


_NEW_TURN = CompiledInsert(Turn)
_COUNT_ON = CompiledUpdate(
    lambda session_id, ordinals, now, title: (
        Session.objects.filter(pk=session_id),
        {
            "message_count": F("message_count") + 1,
            "next_ordinal": F("next_ordinal") + ordinals,
            "last_active_at": now,
            "title": Case(When(title="", then=Value(title)), default=F("title")),
        },
    ),
    uuid4(),
    987_654_321,
    datetime(2001, 2, 3, tzinfo=UTC),
    "the title of the session",
)


def _find_prior(message: ValidatedMessage) -> Accepted | None:
    """What became of the message the first time. Raises IdempotencyMismatch when that was another message."""
    if message.key is None:
        return None
    turn = Turn.objects.select_related("session", "run").filter(idempotency_key=message.key).first()
    if turn is None or turn.run is None:
        return None
    if turn.body_digest != message.digest:
        raise IdempotencyMismatch
    return Accepted(turn.session_id, turn.session.key, turn.id, turn.run.id, turn.ordinal, is_duplicate=True)


def _find_earlier(arrival: InboundRecord | None) -> Accepted | None:
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
