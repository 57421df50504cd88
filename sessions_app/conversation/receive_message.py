"""Receiving a message of any surface or channel: deduplication, session, user turn and run in one transaction."""

from collections.abc import Sequence
from dataclasses import replace

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Max
from django.utils import timezone

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.configuration import agent_access
from agents_app.configuration.agent_access import AgentNotShared, HiddenAgent
from agents_app.errors import IdempotencyMismatch, QueueFull, RunBusy
from agents_app.models import Run
from agents_app.types import WaitingOn
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.errors import Forbidden, InvalidInput
from sessions_app import events, hot_queries
from sessions_app.attachments import model_text, uploads
from sessions_app.attachments import records as attachments
from sessions_app.conversation import branches, run_options
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.new_message import (
    Accepted,
    NewMessage,
    QuestionClosed,
    ReceiveOptions,
    ValidatedMessage,
    validated,
)
from sessions_app.conversation.sessions import check_sender, event_about, find_or_open, lock_seen, title_of
from sessions_app.identity import scopes
from sessions_app.models import Session, Turn
from tools_app import selectors as tools
from tools_app.types.authors import PERSON

_QUEUE_RETRY_SECONDS = 10


def receive(
    message: NewMessage,
    *,
    owner: User | None,
    session: Session | None = None,
    agent_id: str = "default",
    idempotency_key: str = "",
    options: ReceiveOptions = ReceiveOptions(),  # noqa: B008 - frozen
) -> Accepted:
    """Store a message and start the run that answers it. Idempotent.

    owner: the user the message acts for; None for a channel's sender.
    session: write into this one instead of the one that `message.key` names.
    agent_id: the agent of a session that is created.
    idempotency_key: a repetition with the same key and the same message returns the first result. So does a channel's
        message that arrives again under one of its keys.
    options: limits, what the run is given, and what to do if the session has an open run. If that run waits for the
        user's answer to a question, the message is the answer, whatever `options.busy` is, if it may be.

    Owns its transaction: the session, the user turn, the run, the channel's record and the events are stored in one,
    or nothing is. Earlier runs are interrupted after it. Raises InvalidInput (text_required, text_too_long,
    session_id_too_long, channel_mismatch, and those of `uploads.take`), NotFound (another owner's session, unknown
    agent), Forbidden (channel_not_allowed, foreign_sender, agent_not_shared), RunBusy, QueueFull, QuestionClosed,
    IdempotencyMismatch,
    and IntegrityError for a channel's message that arrived before and got no run.
    """
    valid = validated(message, owner, session, idempotency_key, options)
    if prior := _find_prior(valid):
        return _repeated(prior, options)
    if session is None:
        check_sender(message.key, owner)
    try:
        with transaction.atomic():
            accepted, policy = _accept(valid, session, agent_id)
            if options.act:
                options.act(accepted)
    except (IntegrityError, RunBusy, QueueFull, QuestionClosed):
        # The same key arrived twice at once: the first has been stored by now, and may be what keeps the session busy.
        if prior := _find_prior(valid) or _find_earlier(valid.arrival):
            return _repeated(prior, options)
        raise
    except (HiddenAgent, AgentNotShared) as refusal:
        if owner:
            agent_access.record_refusal(owner, refusal)
        raise
    _interrupt_earlier(accepted, policy)
    return accepted


def _repeated(prior: Accepted, options: ReceiveOptions) -> Accepted:
    """Return the first result. The process that stored it may have died before it interrupted earlier runs."""
    session = Session.objects.select_related("agent").get(pk=prior.session_id)
    _interrupt_earlier(prior, options.busy or session.agent.busy_policy)
    return prior


def _interrupt_earlier(accepted: Accepted, policy: str) -> None:
    """Stop the runs before the message, if that is the policy. Idempotent."""
    if policy == "interrupt":
        runs.cancel_earlier_runs(accepted.session_id, accepted.ordinal, reason="Interrupted by a newer message.")


def _accept(message: ValidatedMessage, session: Session | None, agent_id: str) -> tuple[Accepted, str]:
    """Store the message in the caller's transaction; return the result and the session's busy policy."""
    created: list[NewEvent] = []
    arrival, options = message.arrival, message.options
    if arrival:
        arrival.claim_keys()
    if session is None:
        inbound = message.inbound
        session, created = find_or_open(
            inbound.key, message.owner, inbound.sender_name, agent_id, metadata=options.metadata
        )
    if message.owner and not created:
        agent_access.check_still_shared(message.owner, session.agent)
    _check_channel(session, message.inbound.channel)
    if message.owner:
        scopes.require_agent(message.owner, session.agent)
    policy = options.busy or session.agent.busy_policy
    if options.replaces:
        session = lock_seen(session)
        begun = branches.begin(session, options.replaces)
        return _start(message, session, [begun]), policy
    if message.inbound.attachments:
        message = _with_files(message, session)
    # Runs that begin after this have ordinals from `session.next_ordinal` on.
    open_ids = agents.list_open_run_ids(session.id)
    open_runs = sum(parent_id is None for _, _, parent_id in open_ids)
    question = tools.find_question(session.id, options.answers) if open_ids and options.may_answer else None
    text = f"{message.text}\n\n{message.attached}" if message.attached else message.text
    request_id = options.answers
    if question and (answered := runs.answer_input(question.run_id, text, actor=message.actor, request_id=request_id)):
        run, answer = answered
        return _store(message, session, run, [*created, *answer.events], answers=[str(answer.execution_id)]), policy
    if options.answers:
        raise QuestionClosed
    # An open run does not wait for files, and keeps its tools and schema: a message that brings any gets its own run.
    has_files = bool(message.files or (arrival and arrival.files))
    has_own = options.run.chooses_tools or options.run.client_tools or options.run.output_schema is not None
    may_join = open_runs and policy == "steer" and not has_files and not has_own
    if may_join and (steered := runs.steer_open_run(session.id, session.agent)):
        # The run's row is locked now, the session's is not: the run's row guards the turn's part.
        return _store(message, session, steered, created), policy
    if open_ids and policy == "interrupt":
        runs.interrupt(session.id)
    expected = session.next_ordinal
    session = lock_seen(session)
    _check_queue(session, policy, open_runs if session.next_ordinal == expected else None)
    for run_id, waiting_on, _ in open_ids:
        if waiting_on == WaitingOn.CHILDREN.value:  # it ends for this message; its workstreams go on
            runs.nudge_run(run_id)
    # Read again under the lock, which the end of a run takes, too: one that has ended since nudges nobody.
    waits = bool(open_ids and agents.list_open_run_ids(session.id))
    return _start(message, session, created, waits=waits), policy


def _start(message: ValidatedMessage, session: Session, created: list[NewEvent], *, waits: bool = False) -> Accepted:
    """Store the message as the first turn of a new run. The session's row is locked.

    waits: as in `NewRun`.
    """
    arrival, options = message.arrival, message.options
    account = arrival.row.account if arrival else None
    new = runs.NewRun(
        conversation_id=session.id,
        session_key=session.key,
        ordinal=session.next_ordinal,
        agent=session.agent,
        actor=message.actor,
        options=run_options.granted(options.run, message.owner, session),
        session_policy=run_options.restrictions(session, account, options.denied_tools),
        waits=waits,
    )
    run, queued = runs.start_run(new)
    return _store(message, session, run, created, queued)


def _with_files(message: ValidatedMessage, session: Session) -> ValidatedMessage:
    """Return the message with its uploaded files, which are artifacts of the session from now on."""
    files = uploads.take(message.owner, message.inbound.attachments, session)
    text = message.text or model_text.file_list((file.kind, file.filename) for file in files)
    return replace(message, text=text, files=files, attached=uploads.describe(files))


def _next_part(run: Run) -> int:
    """Return the next free part among a run's turns. The caller holds the lock of the run's row."""
    last = Turn.objects.filter(session_id=run.conversation_id, ordinal=run.ordinal).aggregate(last=Max("part"))["last"]
    return 0 if last is None else last + 1


def _store(
    message: ValidatedMessage,
    session: Session,
    run: Run,
    created: list[NewEvent],
    queued: Sequence[NewEvent] = (),
    *,
    answers: list[str] | None = None,
) -> Accepted:
    """Store the user turn and emit the events. queued: those of a new run, of which this is the first turn."""
    now, replaced = timezone.now(), message.options.replaces
    turn = Turn(
        session=session,
        run=run,
        ordinal=run.ordinal,
        branch=session.active_branch if queued else branches.branch_of_run(session.id, run.ordinal),
        part=0 if queued else _next_part(run),
        role="user",
        content=message.text,
        attached=replaced.attached if replaced else message.attached,
        origins=None if (author := message.inbound.author) is PERSON else author.stored,
        created_at=now,
        idempotency_key=message.key,
        body_digest=message.digest,
        tool_call_ids=answers,
    )
    context = message.inbound.context if answers is None else None  # an answer is the result of a call
    hot_queries.INSERT_TURNS.run([context.turn_before(turn), turn] if context else [turn])
    if replaced:
        attachments.copy(replaced.turn_ids, turn)
    if message.files:
        uploads.bind(message.files, turn.id)
    if arrival := message.arrival:
        arrival.store(turn=turn)
        if arrival.files:
            attachments.add(turn, arrival.row.account, arrival.files, is_album=bool(arrival.album_id))
    title = "" if session.title else title_of(message.text)  # a title stays
    hot_queries.COUNT_USER_TURN.run(session_id=session.id, ordinals=1 if queued else 0, now=now, title=title)
    message_id = message.inbound.message_id or str(turn.id)
    received: events.MessageReceived = {"turn_id": str(turn.id), "message_id": message_id}
    if message.inbound.note:
        received["note"] = dict(message.inbound.note)
    stored = event_about(session, events.MESSAGE_RECEIVED, received, actor=message.actor, run_id=run.id)
    audit.emit([*created, stored, *queued])
    return Accepted(session.id, session.key, turn.id, run.id, run.ordinal, created_at=run.created_at)


def _find_prior(message: ValidatedMessage) -> Accepted | None:
    """Return the first result for the idempotency key. Raises IdempotencyMismatch if that was another message."""
    if message.key is None:
        return None
    turn = hot_queries.FIND_TURN_BY_KEY.first(key=message.key)
    if turn is None or turn.run is None:
        return None
    if turn.body_digest != message.digest:
        raise IdempotencyMismatch
    return Accepted(turn.session_id, turn.session.key, turn.id, turn.run.id, turn.ordinal, is_duplicate=True)


def _find_earlier(arrival: InboundRecord | None) -> Accepted | None:
    """Return the first result for a channel's message. Called only when its keys are taken, which is rare."""
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


def _check_queue(session: Session, policy: str, open_runs: int | None) -> None:
    """Raise RunBusy or QueueFull. open_runs: their number, if no run has begun since it was read."""
    if policy == "interrupt":
        return
    if open_runs is None:
        open_runs = sum(parent_id is None for _, _, parent_id in agents.list_open_run_ids(session.id))
    if open_runs and policy == "reject":
        raise RunBusy
    if open_runs > session.agent.queue_limit:
        raise QueueFull(
            f"{session.agent.queue_limit} messages wait in this session already. Send again when some are answered.",
            retry_after_seconds=_QUEUE_RETRY_SECONDS,
        )
