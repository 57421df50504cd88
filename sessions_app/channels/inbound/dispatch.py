"""Dispatch of channel events: checks the sender's access, carries out commands and receives messages."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from django.db import IntegrityError, transaction

from agents_app import selectors as agents
from audit_app.kernel.errors import AppError, RateLimited, Unavailable
from sessions_app.attachments import model_text
from sessions_app.channels import open_access
from sessions_app.channels.base import ChannelAdapter
from sessions_app.channels.inbound import albums, approval_buttons, commands, pairing_codes
from sessions_app.channels.messages import (
    ButtonPress,
    ChannelEvent,
    ChannelMessage,
    Chat,
    ChatEvent,
    ChatMoved,
    Ignored,
    StopRequest,
    Target,
    is_command,
)
from sessions_app.channels.open_access import SenderBudgetUsedUp
from sessions_app.channels.outbound.chat_migration import move_chat
from sessions_app.channels.outbound.outbox import Destination, draft_id_of
from sessions_app.conversation.inbound_record import InboundRecord, clean_name, count_refused, new_row
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import ChannelAccount, Session
from sessions_app.services import Accepted, NewMessage, ReceiveOptions, cancel_session_runs, receive

logger = logging.getLogger(__name__)

_REFUSED = ("not_allowed", "not_paired")
_HINT_AGAIN = timedelta(hours=1)
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
                if taken := _take_message(account, adapter, channel_event, raw):
                    accepted.append(taken)
            case ButtonPress():
                approval_buttons.take_press(account, channel_event, raw)
            case StopRequest():
                _stop(account, adapter, channel_event)
            case ChatMoved(old, new):
                move_chat(account, old, new)
            case ChatEvent(note, chat, keys=keys, sent_at=sent_at):
                row = new_row(account, channel_event, keys[0], raw, sent_at=sent_at)
                commands.record(InboundRecord(row, keys), note, Destination(account, Target(chat)), "")
            case Ignored(why):
                logger.info("%s: ignored (%s)", account, why)
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
    def is_allowed(self) -> bool:
        match self.account.access:
            case "open":
                return True
            case "allow_list":
                return bool({self.incoming.sender_id, self.incoming.chat.id} & {*self.account.allowed_senders})
            case _:
                return pairing_codes.is_paired(self.account, self.incoming.sender_id)

    def count_refused(self, within: timedelta, *reasons: str) -> int:
        return count_refused(self.account.pk, self.incoming.sender_id, reasons, within)

    def record(self, reason: str, notice: str) -> None:
        """Store the message without a run; see `commands.record`."""
        commands.record(self.arrival, reason, self.destination, notice)


def _take_message(
    account: ChannelAccount, adapter: ChannelAdapter, incoming: ChannelMessage, raw: bytes
) -> Accepted | None:
    if not incoming.is_addressed and not incoming.album_id:
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
    elif is_command(incoming.text):
        _handle_command(case)
    elif not incoming.text.strip() and not case.arrival.files:
        notice = f"I can read text and files, but no {incoming.unreadable}." if incoming.unreadable else ""
        case.record("no_text", notice)
    elif not incoming.album_id:
        return _receive(case)
    elif accepted := albums.begin_or_join(case.arrival, lambda part: _receive(replace(case, arrival=part))):
        albums.gather(case.arrival, accepted)
        return accepted
    return None


def _handle_command(case: _Case) -> None:
    command, *arguments = case.incoming.text.split()
    if command in ("/approve", "/deny"):
        approval_buttons.handle_command(case.arrival, case.destination, case.key, case.incoming.text)
    elif command == "/pair" and len(arguments) == 1:
        _pair(case, arguments[0])
    else:
        commands.handle_command(case.arrival, case.destination, case.key, case.incoming.text)


def _receive(case: _Case) -> Accepted | None:
    incoming, key, agent = case.incoming, case.key, case.account.agent
    title = incoming.chat_title if incoming.chat.type != "direct" else ""
    names = ((file.kind, model_text.clean_filename(file.filename or "")) for file in case.arrival.files)
    inbound = NewMessage(
        key.channel,
        key.account_id,
        key.sender_id,
        clean_name(title or incoming.sender_name),
        incoming.text.strip() or model_text.file_list(names),
        message_id=case.arrival.row.message_id,
        thread_id=key.thread_id,
        author_id=incoming.sender_id,
        arrival=case.arrival,
    )
    options = ReceiveOptions(act=partial(open_access.charge, case.account, incoming.sender_id))
    try:
        return receive(inbound, owner=None, agent_id=agent.agent_id if agent else "default", options=options)
    except IntegrityError:
        if case.arrival.find_earlier() is None:
            raise
        return None  # a duplicate of a message that was refused
    except AppError as error:
        pushes_back = case.adapter.capabilities(incoming.chat).pushes_back
        if pushes_back and isinstance(error, Unavailable):
            raise
        if pushes_back and error.code in ("queue_full", "run_busy"):
            seconds = getattr(error, "retry_after_seconds", 5)
            raise RateLimited(error.message, code=error.code, retry_after_seconds=seconds) from None
        notice = error.message
        if isinstance(error, SenderBudgetUsedUp) and case.count_refused(timedelta(days=1), error.code):
            notice = ""  # once is enough
        case.record(error.code, notice)
        return None


def _refuse(case: _Case) -> None:
    """Store the message with its reason. If senders can pair, reply with how to, at most once an hour."""
    parts = case.incoming.text.split()
    if case.account.access != "paired":
        case.record("not_allowed", "")
    elif len(parts) == 2 and parts[0] in ("/pair", "/start"):
        _pair(case, parts[1])
    else:
        case.record("not_paired", "" if case.count_refused(_HINT_AGAIN, *_REFUSED) else _PRIVATE)


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
    key = session_key(adapter, account, request.chat, request.chat.id)
    session = Session.objects.filter(key=str(key)).first()
    for run in agents.list_open_runs(session.pk) if session else ():
        if session and draft_id_of(run.id) == request.draft_id:
            cancel_session_runs(session, reason="Stopped.", run_id=run.id)
