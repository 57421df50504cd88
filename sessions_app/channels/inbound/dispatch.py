"""Takes in what channels bring: lets senders in or not, obeys commands, and hands messages on to be answered."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from django.db import IntegrityError, transaction

from agents_app import selectors as agents
from audit_app.kernel.errors import AppError, RateLimited, Unavailable
from sessions_app.channels.attachments import model_text
from sessions_app.channels.base import ChannelAdapter
from sessions_app.channels.inbound import albums, approval_buttons, commands, pairing
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
from sessions_app.channels.outbound.chat_migration import move_chat
from sessions_app.channels.outbound.outbox import Destination, draft_id_of
from sessions_app.conversation.inbound_record import InboundRecord, clean_name, count_refused, new_row
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import ChannelAccount, Session
from sessions_app.services import Accepted, NewMessage, cancel_session_runs, receive

logger = logging.getLogger(__name__)

_REFUSED = ("not_allowed", "not_paired")
_TELL_AGAIN = timedelta(hours=1)
_WRONG_CODE = "This code is not valid. Codes work once, for 15 minutes."
_PRIVATE = "This assistant is private. Ask its operator for a pairing code, then send `/pair CODE`."


def take_in(
    account: ChannelAccount, adapter: ChannelAdapter, channel_events: Sequence[ChannelEvent], raw: bytes
) -> list[Accepted]:
    """Take in what a webhook brought; what became runs. A repetition changes nothing.

    Owns its transactions: each message with its keys, turn and run in one. Raises RunBusy, QueueFull and Stopped for
    channels whose senders try again by themselves, and what the database raises.
    """
    accepted = []
    for channel_event in channel_events:
        match channel_event:
            case ChannelMessage():
                taken = _take_message(account, adapter, channel_event, raw)
                accepted += [taken] if taken else []
            case ButtonPress():
                approval_buttons.take_press(account, channel_event, raw)
            case StopRequest():
                _stop(account, adapter, channel_event)
            case ChatMoved(old, new):
                move_chat(account, old, new)
            case ChatEvent():
                _note(account, channel_event, raw)
            case Ignored(why):
                logger.info("%s: ignored (%s)", account, why)
    return accepted


def session_key(adapter: ChannelAdapter, account: ChannelAccount, chat: Chat, sender_id: str) -> SessionKey:
    """A session belongs to a person where two talk, to the chat where several do; each thread has its own."""
    return SessionKey(adapter.name, account.account_id, sender_id if chat.type == "direct" else chat.id, chat.thread_id)


@dataclass(frozen=True)
class _Case:
    """A message that is being taken in, with all that decides what becomes of it."""

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
                return pairing.is_paired(self.account, self.incoming.sender_id)

    def record(self, reason: str, notice: str) -> None:
        """It gets no run: kept with the reason, answered by the notice unless that is empty."""
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
        _obey(case)
    elif not incoming.text.strip() and not case.arrival.files:
        case.record("no_text", f"I can read text and files, no {incoming.unreadable}." if incoming.unreadable else "")
    elif not incoming.album_id:
        return _receive(case)
    elif accepted := albums.begin_or_join(case.arrival, lambda part: _receive(replace(case, arrival=part))):
        albums.gather(case.arrival, accepted)
        return accepted
    return None


def _obey(case: _Case) -> None:
    command, *words = case.incoming.text.split()
    if command in ("/approve", "/deny"):
        approval_buttons.handle_command(case.arrival, case.destination, case.key, case.incoming.text)
    elif command == "/pair" and len(words) == 1:
        _pair(case, words[0])
    else:
        commands.handle_command(case.arrival, case.destination, case.key, case.incoming.text)


def _receive(case: _Case) -> Accepted | None:
    incoming, key, agent = case.incoming, case.key, case.account.agent
    inbound = NewMessage(
        key.channel,
        key.account_id,
        key.sender_id,
        _party(incoming),
        incoming.text.strip() or _names(case.arrival),
        message_id=case.arrival.row.message_id,
        thread_id=key.thread_id,
        author_id=incoming.sender_id,
        arrival=case.arrival,
    )
    try:
        return receive(inbound, owner=None, agent_id=agent.agent_id if agent else "default")
    except IntegrityError:
        if case.arrival.find_earlier() is None:
            raise
        return None  # it came before, and had been refused
    except AppError as error:
        pushes_back = case.adapter.capabilities(incoming.chat).pushes_back
        if pushes_back and isinstance(error, Unavailable):
            raise
        if pushes_back and error.code in ("queue_full", "run_busy"):
            raise RateLimited(
                error.message, code=error.code, retry_after_seconds=getattr(error, "retry_after_seconds", 5)
            ) from None
        case.record(error.code, error.message)
        return None


def _names(arrival: InboundRecord) -> str:
    return model_text.named((file.kind, model_text.clean_filename(file.filename or "")) for file in arrival.files)


def _party(incoming: ChannelMessage) -> str:
    return clean_name((incoming.chat_title if incoming.chat.type != "direct" else "") or incoming.sender_name)


def _refuse(case: _Case) -> None:
    """Keep the message with its reason. A sender who could be paired is told how, once an hour."""
    words = case.incoming.text.split()
    if case.account.access != "paired":
        case.record("not_allowed", "")
    elif len(words) == 2 and words[0] in ("/pair", "/start"):
        _pair(case, words[1])
    else:
        is_delivered = count_refused(case.account.pk, case.incoming.sender_id, _REFUSED, _TELL_AGAIN)
        case.record("not_paired", "" if is_delivered else _PRIVATE)


def _pair(case: _Case, code: str) -> None:
    account, sender_id = case.account, case.incoming.sender_id
    if not pairing.may_try(account, sender_id):
        case.record("pairing_closed", "")
        return
    with transaction.atomic():  # a code works once: what was not kept must not have used it
        if pairing.use_code(account, code, sender_id, case.incoming.sender_name):
            case.record("paired", "You are paired. Write me anything; /help lists commands.")
        else:
            case.record(pairing.FAILED, _WRONG_CODE)


def _note(account: ChannelAccount, noted: ChatEvent, raw: bytes) -> None:
    row = new_row(
        account, noted.chat, noted.sender_id, noted.sender_name, noted.keys[0], {}, raw, sent_at=noted.sent_at
    )
    commands.record(InboundRecord(row, noted.keys), noted.note, Destination(account, Target(noted.chat)), "")


def _stop(account: ChannelAccount, adapter: ChannelAdapter, asked: StopRequest) -> None:
    """Stop the run whose preview it was, and no later one: the press may come late, and more than once."""
    key = session_key(adapter, account, asked.chat, asked.chat.id)
    session = Session.objects.filter(key=str(key)).first()
    for run in agents.list_open_runs(session.pk) if session else ():
        if session and draft_id_of(run.id) == asked.draft_id:
            cancel_session_runs(session, reason="Stopped.", run_id=run.id)
