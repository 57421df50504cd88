"""Ticks: the times of schedules, each handled exactly once, however many processes look for them.

A tick, its message and the schedule's next time are stored in one transaction. The message's idempotency key names the
tick, and a tick is unique, so that of two processes one does nothing.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.utils import timezone

from agents_app.services import DEFAULT_OPTIONS
from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import AppError, InvalidInput
from sessions_app import hot_queries
from sessions_app.channels import open_access
from sessions_app.channels.inbound import pairing_codes
from sessions_app.conversation import failed_schedules
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.network_start import options_for
from sessions_app.conversation.new_message import Accepted, NewMessage, ReceiveOptions
from sessions_app.conversation.receive_message import receive
from sessions_app.models import ChannelAccount, InboundMessage, Schedule, ScheduleTick, Session
from sessions_app.platforms.sender_actors import sender_actor
from sessions_app.schedules.times import Rhythm

logger = logging.getLogger(__name__)

# A time that is handled this late was not missed.
_ON_TIME = timedelta(seconds=90)
_OWN_SESSION = "schedule-{id}"


class _HandledElsewhere(Exception):
    """Another process has handled the time."""


def handle_due(schedule: Schedule, now: datetime) -> None:
    """Send the message of the next due time, or leave out what was missed, by the schedule's policy.

    With the policy `all` each call sends one of the missed messages.
    """
    if schedule.due_at is None:
        return
    now -= schedule.delay  # in the times of the cron expression
    rhythm = Rhythm(schedule.cron, schedule.time_zone) if schedule.cron else None
    due = rhythm.due(schedule.due_at, now) if rhythm else [schedule.due_at]
    chosen = _choose(schedule.missed, due, now)
    skipped = [moment for moment in due if chosen is None or moment < chosen]
    later = [moment for moment in due if chosen and moment > chosen]
    following = later[0] if later else rhythm.next_after(max(now, due[-1])) if rhythm else None
    next_at = following and following + schedule.delay
    with suppress(_HandledElsewhere):
        if chosen is None:
            with transaction.atomic():
                _advance(schedule, next_at, skipped)
        else:
            _send(schedule, chosen, next_at, skipped)


def run_now(schedule: Schedule, *, actor: str) -> UUID:
    """Send the message now, beside the schedule's times. Return the run's id. Raises the errors of `receive`."""
    tick = ScheduleTick(schedule=schedule, due_at=timezone.now(), is_manual=True)

    def store(accepted: Accepted) -> None:
        _store(tick, "sent", run_id=accepted.run_id)
        _record("CronExecuted", tick, accepted.session_id, run_id=str(accepted.run_id), started_by=actor)

    return _receive(schedule, tick, ReceiveOptions(busy="queue", act=store, may_answer=False)).run_id


def _choose(missed: str, due: Sequence[datetime], now: datetime) -> datetime | None:
    """Return the time to send a message for, or None to leave out all of them."""
    if missed == "all":
        return due[0]
    if missed == "skip" and now - due[-1] > _ON_TIME:
        return None
    return due[-1]


def _send(schedule: Schedule, due_at: datetime, next_at: datetime | None, skipped: Sequence[datetime]) -> None:
    """Store the message of a due time, or why it was refused. Raises _HandledElsewhere."""
    tick = ScheduleTick(schedule=schedule, due_at=due_at)

    def store(accepted: Accepted) -> None:
        _advance(schedule, next_at, skipped)
        _store(tick, "sent", run_id=accepted.run_id)
        _record("CronExecuted", tick, accepted.session_id, run_id=str(accepted.run_id))

    try:
        _receive(schedule, tick, ReceiveOptions(busy="queue", act=store, may_answer=False))
    except AppError as error:
        logger.warning("schedule %s: the message of %s was refused: %s", schedule.task_id, due_at, error.message)
        with transaction.atomic():
            _advance(schedule, next_at, skipped)
            _store(ScheduleTick(schedule=schedule, due_at=due_at), "failed", error=error.message)
            _record("CronFailed", tick, schedule.session_id, code=error.code, message=error.message)


def _receive(schedule: Schedule, tick: ScheduleTick, options: ReceiveOptions) -> Accepted:
    """Receive the message of a tick as one of the person that the schedule acts for.

    Raises the errors of `receive`, and those of `options_for` if the person may not run the schedule's network now.
    """
    key = f"schedule:{schedule.pk}:{tick.due_at.isoformat()}"
    owner, session = schedule.owner, schedule.session
    note = {"schedule": {"taskId": schedule.task_id, "dueAt": tick.due_at.isoformat()}}
    if session is not None and session.deleted_at is None:
        arrival = _arrival(schedule, session, key)
        if arrival and owner is None:
            options = replace(options, act=_charging(schedule, session, arrival.row.account, options.act))
        message = NewMessage.into(session, schedule.prompt, note=note, arrival=arrival, author=schedule.author)
    elif owner is not None:
        session, thread = None, _OWN_SESSION.format(id=schedule.pk)
        party = ("WebChat", "default", str(owner.pk), owner.get_username())
        message = NewMessage(*party, schedule.prompt, thread_id=thread, note=note, author=schedule.author)
    else:
        raise InvalidInput("The chat of this schedule was deleted. Delete the schedule, too.", code="no_session")
    run = DEFAULT_OPTIONS
    if schedule.network:
        run = options_for(owner or AnonymousUser(), schedule.network, schedule.network_context)
    started_by = failed_schedules.note_of(schedule, tick.due_at.isoformat())
    options = replace(options, run=replace(run, is_unattended=not tick.is_manual, note=started_by))
    with context.bind(actor=f"user:{owner.pk}" if owner else schedule.created_by):
        return receive(
            message,
            owner=owner,
            session=session,
            agent_id=schedule.agent.agent_id,
            idempotency_key=key,
            options=options,
        )


def _arrival(schedule: Schedule, session: Session, key: str) -> InboundRecord | None:
    """Return a record by which the answer finds its chat; None if the session is of no channel.

    Raises InvalidInput if the chat cannot be reached any more (account_disabled), or if the sender who created the
    schedule has lost access (sender_not_allowed).
    """
    place = schedule.destination
    if not place:
        return None
    account = ChannelAccount.objects.filter(pk=place["account"], is_enabled=True).first()
    if account is None:
        raise InvalidInput("The channel account of this schedule is disabled or deleted.", code="account_disabled")
    sender_id = _sender_id(schedule, session)
    if schedule.owner is None and not pairing_codes.may_write(account, sender_id, place["chatId"]):
        problem = "The sender of this schedule may no longer write to the channel account. Delete the schedule."
        raise InvalidInput(problem, code="sender_not_allowed")
    now = timezone.now()
    row = InboundMessage(
        account=account,
        message_id="",
        sender_id=session.sender_id,
        sender_name=session.sender_name,
        chat_id=place["chatId"],
        metadata=place["metadata"],
        text=schedule.prompt,
        sent_at=now,
        received_at=now,
    )
    return InboundRecord(row, (key,))


def _sender_id(schedule: Schedule, session: Session) -> str:
    """Return the id of the sender who created the schedule, in the chat of the session."""
    author = schedule.created_by
    if author == sender_actor(session.channel, session.account_id, session.sender_id):
        return session.sender_id
    return author.split(":", 2)[2] if author.startswith("sender:") else session.sender_id


def _charging(
    schedule: Schedule, session: Session, account: ChannelAccount, act: Callable[[Accepted], None] | None
) -> Callable[[Accepted], None]:
    """Return `act` with the count of one more message of the sender: schedules must not evade a limit of the account.

    It raises SenderBudgetUsedUp.
    """

    def charge_and_act(accepted: Accepted) -> None:
        open_access.charge(account, _sender_id(schedule, session))
        if act:
            act(accepted)

    return charge_and_act


def _advance(schedule: Schedule, next_at: datetime | None, skipped: Sequence[datetime]) -> None:
    """Set the next time, unless it was changed meanwhile, and store the times that are left out.

    In the caller's transaction. Raises _HandledElsewhere.
    """
    seen = {"schedule_id": schedule.pk, "seen": schedule.next_at}
    changed = (
        hot_queries.ADVANCE_SCHEDULE.run(**seen, next_at=next_at) if next_at else hot_queries.END_SCHEDULE.run(**seen)
    )
    if not changed:
        raise _HandledElsewhere
    for due_at in skipped:
        _store(ScheduleTick(schedule=schedule, due_at=due_at), "skipped")


def _store(tick: ScheduleTick, status: str, *, run_id: UUID | None = None, error: str = "") -> None:
    tick.status, tick.run_id, tick.error, tick.handled_at = status, run_id, error, timezone.now()
    hot_queries.INSERT_TICKS.run([tick])


def _record(action: str, tick: ScheduleTick, session_id: UUID | None, **details: str) -> None:
    schedule = tick.schedule
    owner = f"user:{schedule.owner_id}" if schedule.owner_id else schedule.created_by
    audit.record(
        action,
        details={"schedule": schedule.task_id, "due_at": tick.due_at.isoformat(), **details},
        actor=owner,
        agent_id=schedule.agent.agent_id,
        session_id=session_id,
    )
