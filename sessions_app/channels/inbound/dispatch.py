"""Dispatch of channel events: checks the sender's access, carries out commands and receives messages."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents_app import selectors as agents
from audit_app.kernel.errors import AppError, RateLimited, Unavailable
from sessions_app.attachments import model_text
from sessions_app.channels import open_access, routes
from sessions_app.channels.inbound import (
    addressees,
    albums,
    approval_buttons,
    bursts,
    changes,
    commands,
    contexts,
    copies,
    group_messages,
    link_commands,
    pairing_codes,
    refusals,
    routed_session,
    workstream_commands,
)
from sessions_app.channels.open_access import SenderBudgetUsedUp
from sessions_app.channels.outbound import question_prompts, transitions
from sessions_app.channels.outbound.chat_migration import move_chat
from sessions_app.channels.outbound.outbox import Destination, draft_id_of, plan_notice
from sessions_app.channels.sender_names import rename_sender
from sessions_app.conversation.inbound_record import InboundRecord, count_refused, new_row
from sessions_app.conversation.message_context import FORWARDED
from sessions_app.conversation.session_key import SessionKey
from sessions_app.identity import rate_limits
from sessions_app.models import ChannelAccount, Session
from sessions_app.platforms import question_buttons
from sessions_app.platforms.base import ChannelAdapter
from sessions_app.platforms.messages import (
    ButtonPress,
    ChannelEvent,
    ChannelMessage,
    Chat,
    ChatEvent,
    ChatMoved,
    DeliveryReport,
    Ignored,
    MessageDeleted,
    MessageEdited,
    OfAccount,
    ProfileChange,
    Reaction,
    StopRequest,
    Target,
    clean_name,
    is_command,
)
from sessions_app.services import Accepted, NewMessage, cancel_session_runs, receive

logger = logging.getLogger(__name__)

_REFUSED = ("not_allowed", "not_paired")
_OF_SESSIONS = {**approval_buttons.COMMANDS, **workstream_commands.COMMANDS}
_DAY = timedelta(days=1)
_MOST_NOTICES = 20
_WRONG_CODE = "This code is not valid. A code works once, within 15 minutes."
_PRIVATE = "This assistant is private. Ask its operator for a pairing code, then send `/pair CODE`."


def handle_events(
    account: ChannelAccount, adapter: ChannelAdapter, channel_events: Sequence[ChannelEvent], raw: bytes
) -> list[Accepted]:
    """Handle the events of a webhook request. Idempotent. Returns the messages that got a run.

    Owns its transactions: each message is stored with its keys, turn and run in one. For channels whose senders retry
    (`Capabilities.pushes_back`), raises RateLimited (queue_full, run_busy) and Unavailable. Raises DatabaseError.
    """
    accepted = []
    for channel_event in channel_events:
        match channel_event:
            case ChannelMessage():
                message = copies.keep_known(account, channel_event) if channel_event.copies else channel_event
                if taken := _take_message(account, adapter, message, raw):
                    accepted.append(taken)
            case ButtonPress():
                if taken := _take_press(account, adapter, channel_event, raw):
                    accepted.append(taken)
            case StopRequest():
                _stop(account, adapter, channel_event)
            case ChatMoved(old, new):
                move_chat(account, old, new)
            case ChatEvent(note, chat, keys=keys, sent_at=sent_at):
                row = new_row(account, channel_event, keys[0], raw, sent_at=sent_at)
                commands.record(InboundRecord(row, keys), note, Destination(account, Target(chat)), "")
            case DeliveryReport(message_id, state, error):
                if not transitions.note_report(account.pk, message_id, state, error):
                    logger.info("%s: a delivery report (%s) has no effect", account, state)
            case MessageEdited() | MessageDeleted() | Reaction():
                changes.handle(account, channel_event)
            case ProfileChange(sender_id, name):
                rename_sender(account, adapter.name, sender_id, name)
            case Ignored(why):
                logger.info("%s: ignored (%s)", account, why)
            case OfAccount():
                logger.warning("%s: ignored, an event of another account", account)
    return accepted


def session_key(adapter: ChannelAdapter, account: ChannelAccount, chat: Chat, sender_id: str) -> SessionKey:
    """Return the key of the session: the sender's in a direct chat, else the chat's; one for each thread."""
    return SessionKey(adapter.name, account.account_id, sender_id if chat.type == "direct" else chat.id, chat.thread_id)


@dataclass(frozen=True)
class _Case:
    """A message with the account, the adapter and the record that it is handled by."""

    account: ChannelAccount
    adapter: ChannelAdapter
    incoming: ChannelMessage
    arrival: InboundRecord

    @property
    def destination(self) -> Destination:
        incoming = self.incoming
        target = Target(incoming.chat, reply_to=incoming.message_id, reference=incoming.reference)
        return Destination(self.account, target)

    @property
    def key(self) -> SessionKey:
        return session_key(self.adapter, self.account, self.incoming.chat, self.incoming.sender_id)

    @property
    def place(self) -> routes.Place:
        row = self.arrival.row
        return routes.Place(self.account, row.chat_id, row.sender_id, self.incoming.chat.type == "direct")

    @property
    def is_allowed(self) -> bool:
        is_open = self.account.access == "open"
        return is_open or pairing_codes.may_write(self.account, self.incoming.sender_id, self.incoming.chat.id)

    @property
    def is_of_program(self) -> bool:
        """True if programs write there, which read refusals."""
        return self.adapter.capabilities(self.incoming.chat).pushes_back

    @property
    def may_burst(self) -> bool:
        is_plain = not self.incoming.has_texts_of_others
        return is_plain and bursts.is_short(self.arrival) and not self.is_of_program

    def join_burst(self) -> Accepted | None:
        """Add the message to the one that its sender wrote just before, if it continues that."""
        return bursts.join(self.arrival, self.key) if self.may_burst else None

    def count_refused(self, within: timedelta, *reasons: str) -> int:
        return count_refused(self.account.pk, self.incoming.sender_id, reasons, within)

    def refuse(self, reason: str, notice: str) -> None:
        """Record the message and say why, a few times a day at most: a program may be answering the notice."""
        is_enough = notice and self.count_refused(_DAY, reason) >= _MOST_NOTICES
        self.record(reason, "" if is_enough else notice)

    def record(self, reason: str, notice: str) -> None:
        """Store the message without a run; see `commands.record`."""
        commands.record(self.arrival, reason, self.destination, notice)


def _take_message(
    account: ChannelAccount, adapter: ChannelAdapter, incoming: ChannelMessage, raw: bytes
) -> Accepted | None:
    if incoming.chat.type != "direct":
        key = session_key(adapter, account, incoming.chat, incoming.sender_id)
        incoming = replace(incoming, is_addressed=addressees.is_addressed(account, adapter, incoming, key))
    if not incoming.is_addressed and (not incoming.album_id or account.config.get("groups") == "off"):
        group_messages.keep(account, incoming)
        logger.info("%s: ignored (not_addressed)", account)
        return None
    case = _Case(account, adapter, incoming, InboundRecord.of_message(account, incoming, raw))
    if incoming.album_id and (joined := albums.join(case.arrival)):
        return joined
    if not case.is_allowed:
        if incoming.is_addressed:
            _refuse(case)
    elif not incoming.is_addressed:
        case.record(albums.NOT_ADDRESSED, "")
        return albums.catch_up(case.arrival)
    elif is_command(incoming.text) and incoming.forwarded_from is None:
        _handle_command(case)
    else:
        return _take_in_pace(case)
    return None


def _take_in_pace(case: _Case) -> Accepted | None:
    """Take a message, unless it is new and its sender writes too fast. Raises WritesTooFast if a program wrote it."""
    pace = cache(partial(rate_limits.check_pace, case.account.pk, case.incoming.sender_id))  # a message is counted once
    try:
        return _take_content(replace(case, arrival=replace(case.arrival, admit=pace)))
    except rate_limits.WritesTooFast as error:
        if case.is_of_program:
            raise
        case.record(error.code, "" if case.count_refused(refusals.NOTICE_AGAIN, error.code) else error.message)
        return None


def _take_content(case: _Case) -> Accepted | None:
    incoming = case.incoming
    if not incoming.text.strip() and not case.arrival.files and not incoming.carries_others:
        notice = f"I can read text and files, but no {incoming.unreadable}." if incoming.unreadable else ""
        case.refuse("no_text", notice)
    elif not incoming.album_id:
        return case.join_burst() or _receive(case)
    elif accepted := albums.begin_or_join(case.arrival, lambda part: _receive(replace(case, arrival=part))):
        albums.gather(case.arrival, accepted)
        return accepted
    return None


def _take_press(account: ChannelAccount, adapter: ChannelAdapter, press: ButtonPress, raw: bytes) -> Accepted | None:
    """Carry out a decision, or receive the option of a question as a message of the sender."""
    action = question_buttons.read_action(press.action_id)
    if action is None:
        approval_buttons.take_press(account, press, raw)
        return None
    option = question_prompts.find_option(*action, account_id=account.pk, chat_id=press.chat.id)
    destination = Destination(account, Target(press.chat, press_id=press.press_id, reference=press.reference))
    if option is None:
        record = InboundRecord(new_row(account, press, press.press_id, raw), press.keys)
        commands.record(record, "unknown_action", destination, approval_buttons.NOT_ACTIVE)
        return None
    incoming = ChannelMessage(
        press.message_id,
        press.sender_id,
        press.sender_name,
        option,
        timezone.now(),
        press.chat,
        press.keys,
        reference=press.reference,
    )
    case = _Case(account, adapter, incoming, InboundRecord.of_message(account, incoming, raw))
    if not case.is_allowed:
        _refuse(case)
        return None
    accepted = _receive(case, answers=action[0])
    if adapter.shows_presses:
        return accepted
    with transaction.atomic():
        press_id = hashlib.sha256(press.press_id.encode()).hexdigest()  # programs choose ids of any length
        plan_notice(destination, f"press:{account.pk}:{press_id}", option)
    return accepted


def _handle_command(case: _Case) -> None:
    command, *arguments = case.incoming.text.split()
    if command in link_commands.COMMANDS:
        link_commands.handle(case.arrival, case.destination, case.incoming.text)
    elif command == "/pair" and len(arguments) == 1:
        _pair(case, arguments[0])
    else:
        handle = _OF_SESSIONS.get(command, commands.handle_command)
        handle(case.arrival, case.destination, case.key, case.incoming.text)


def _receive(case: _Case, answers: UUID | None = None) -> Accepted | None:
    """Receive the message of a case. answers: the id of the question that it answers."""
    incoming, key = case.incoming, case.key
    title = incoming.chat_title if incoming.chat.type != "direct" else ""
    names = [(file.kind, model_text.clean_filename(file.filename or "")) for file in case.arrival.files]
    is_own = incoming.forwarded_from is None
    may_answer = is_own and bool(incoming.text.strip() or case.arrival.files)
    inbound = NewMessage(
        key.channel,
        key.account_id,
        key.sender_id,
        clean_name(title or incoming.sender_name),
        (incoming.text.strip() if is_own else "") or model_text.file_list(names) or FORWARDED,
        message_id=case.arrival.row.message_id,
        thread_id=key.thread_id,
        author_id=incoming.sender_id,
        arrival=case.arrival,
        context=contexts.context_of(case.account, incoming, key) if incoming.has_context else None,
    )

    def act(accepted: Accepted) -> None:
        open_access.charge(case.account, incoming.sender_id)
        if case.may_burst and answers is None:
            bursts.await_more(accepted)

    try:
        routing = routes.find(case.place)
        session = routed_session.follow(key, routing)
        options = routed_session.options_of(routing, key.channel, act=act, answers=answers, may_answer=may_answer)
        return receive(inbound, owner=None, session=session, agent_id=routing.agent_id, options=options)
    except IntegrityError:
        if case.arrival.find_earlier() is None:
            raise
        return None  # a duplicate of a message that was refused
    except AppError as error:
        if isinstance(error, rate_limits.WritesTooFast) or (case.is_of_program and isinstance(error, Unavailable)):
            raise
        if case.is_of_program and error.code in ("queue_full", "run_busy"):
            seconds = getattr(error, "retry_after_seconds", 5)
            raise RateLimited(error.message, code=error.code, retry_after_seconds=seconds) from None
        notice = error.message
        if isinstance(error, SenderBudgetUsedUp) and case.count_refused(_DAY, error.code):
            notice = ""  # once is enough
        case.refuse(error.code, notice)
        return None


def _refuse(case: _Case) -> None:
    """Store the message with its reason. If senders can pair, reply with how to, at most once an hour."""
    parts = case.incoming.text.split()
    if case.account.access != "paired":
        case.record("not_allowed", "")
    elif len(parts) == 2 and parts[0] in ("/pair", "/start"):
        _pair(case, parts[1])
    else:
        case.record("not_paired", "" if case.count_refused(refusals.NOTICE_AGAIN, *_REFUSED) else _PRIVATE)


def _pair(case: _Case, code: str) -> None:
    account, sender_id = case.account, case.incoming.sender_id
    if not pairing_codes.may_try(account, sender_id):
        case.record("pairing_closed", "")
        return
    with transaction.atomic():  # a code works once: if the message is not stored, the code must stay unused
        if pairing_codes.use_code(account, code, sender_id, case.incoming.sender_name):
            case.record("paired", "You are paired. Send me a message, or /help for the list of commands.")
        else:
            case.record(pairing_codes.FAILED, _WRONG_CODE)


def _stop(account: ChannelAccount, adapter: ChannelAdapter, request: StopRequest) -> None:
    """Stop the run of that preview and no later one: the request may arrive late, and more than once."""
    session = Session.objects.filter(key=str(session_key(adapter, account, request.chat, request.chat.id))).first()
    for run in agents.list_open_runs(session.pk) if session else ():
        if session and draft_id_of(run.id) == request.draft_id:
            cancel_session_runs(session, reason="Stopped.", run_id=run.id)
