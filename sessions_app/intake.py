"""Takes in what channels bring: lets senders in or not, obeys commands, and hands messages on to be answered."""

import logging
from collections.abc import Sequence
from datetime import timedelta

from django.db import IntegrityError, transaction

from audit_app.kernel.errors import AppError, RateLimited
from sessions_app import commands, pairing
from sessions_app.arrivals import Arrival, clean_name, count_refused, new_row
from sessions_app.channels.base import ChannelAdapter
from sessions_app.channels.messages import (
    Chat,
    ChatMoved,
    ChatNoted,
    Happening,
    Ignored,
    Incoming,
    Press,
    StopAsked,
    Target,
    is_command,
)
from sessions_app.delivery.planning import Destination, move_chat
from sessions_app.keys import SessionKey, parse_key
from sessions_app.models import ChannelAccount, Session
from sessions_app.services import Accepted, Inbound, cancel_session_runs, receive

logger = logging.getLogger(__name__)

_REFUSED = ("not_allowed", "not_paired")
_TELL_AGAIN = timedelta(hours=1)
_WRONG_CODE = "This code is not valid. Codes work once, for 15 minutes."
_PRIVATE = "This assistant is private. Ask its operator for a pairing code, then send `/pair CODE`."


def take_in(
    account: ChannelAccount, adapter: ChannelAdapter, happenings: Sequence[Happening], raw: bytes
) -> list[Accepted]:
    """Take in what a webhook brought; what became runs. A repetition changes nothing.

    Owns its transactions: each message with its keys, turn and run in one. Raises RunBusy and QueueFull for channels
    whose senders try again by themselves, and what the database raises.
    """
    accepted = []
    for happening in happenings:
        match happening:
            case Incoming():
                taken = _take_message(account, adapter, happening, raw)
                accepted += [taken] if taken else []
            case Press():
                _note_press(account, happening, raw)
            case StopAsked(chat):
                _stop(account, adapter, chat)
            case ChatMoved(old, new):
                _move_chat(account, adapter, old, new)
            case ChatNoted():
                _note(account, happening, raw)
            case Ignored(why):
                logger.info("%s: ignored (%s)", account, why)
    return accepted


def session_key(adapter: ChannelAdapter, account: ChannelAccount, chat: Chat, sender_id: str) -> SessionKey:
    """A session belongs to a person where two talk, to the chat where several do; each thread has its own."""
    return SessionKey(adapter.name, account.account_id, sender_id if chat.type == "direct" else chat.id, chat.thread_id)


def _take_message(account: ChannelAccount, adapter: ChannelAdapter, incoming: Incoming, raw: bytes) -> Accepted | None:
    if not incoming.is_addressed:
        logger.info("%s: ignored (not_addressed)", account)
        return None
    arrival = Arrival.of_message(account, incoming, raw)
    destination = Destination(account, Target(incoming.chat, reply_to=incoming.message_id))
    key = session_key(adapter, account, incoming.chat, incoming.sender_id)
    if not _is_allowed(account, incoming):
        _refuse(account, arrival, destination, incoming)
        return None
    if is_command(incoming.text):
        commands.obey(arrival, destination, key, incoming.text)
        return None
    if not incoming.text.strip():
        is_album = bool(incoming.metadata.get("mediaGroupId"))
        told = "" if is_album or not incoming.attachments else "I can read text only so far, no files."
        commands.record(arrival, "no_text", destination, told)
        return None
    return _receive(account, adapter, incoming, arrival, destination, key)


def _receive(
    account: ChannelAccount,
    adapter: ChannelAdapter,
    incoming: Incoming,
    arrival: Arrival,
    destination: Destination,
    key: SessionKey,
) -> Accepted | None:
    inbound = Inbound(
        key.channel, key.account_id, key.sender_id, _party(incoming), incoming.text,
        message_id=arrival.row.message_id, thread_id=key.thread_id, author_id=incoming.sender_id,
    )  # fmt: skip
    try:
        return receive(
            inbound, owner=None, agent_id=account.agent.agent_id if account.agent else "default", arrival=arrival
        )
    except IntegrityError:
        if arrival.find_earlier() is None:
            raise
        return None  # it came before, and had been refused
    except AppError as error:
        if adapter.capabilities(incoming.chat).pushes_back and error.code in ("queue_full", "run_busy"):
            raise RateLimited(
                error.message, code=error.code, retry_after_seconds=getattr(error, "retry_after_seconds", 5)
            ) from None
        commands.record(arrival, error.code, destination, error.message)
        return None


def _party(incoming: Incoming) -> str:
    title = incoming.metadata.get("chatTitle")
    return clean_name(str(title) if incoming.chat.type != "direct" and title else incoming.sender_name)


def _is_allowed(account: ChannelAccount, incoming: Incoming) -> bool:
    match account.access:
        case "open":
            return True
        case "allow_list":
            return bool({incoming.sender_id, incoming.chat.id} & {*account.allowed_senders})
        case _:
            return pairing.is_paired(account, incoming.sender_id)


def _refuse(account: ChannelAccount, arrival: Arrival, destination: Destination, incoming: Incoming) -> None:
    """Keep the message with its reason. A sender who could be paired is told how, once an hour."""
    sender = incoming.sender_id
    if account.access != "paired":
        commands.record(arrival, "not_allowed", destination, "")
        return
    words = incoming.text.split()
    if len(words) == 2 and words[0] in ("/pair", "/start"):
        if not pairing.may_try(account, sender):
            commands.record(arrival, "pairing_closed", destination, "")
        elif pairing.use_code(account, words[1], sender, incoming.sender_name):
            commands.record(arrival, "paired", destination, "You are paired. Write me anything; /help lists commands.")
        else:
            commands.record(arrival, pairing.FAILED, destination, _WRONG_CODE)
        return
    was_told = count_refused(account.pk, sender, _REFUSED, _TELL_AGAIN)
    commands.record(arrival, "not_paired", destination, "" if was_told else _PRIVATE)


def _note_press(account: ChannelAccount, press: Press, raw: bytes) -> None:
    """A pressed button. None of ours is open, so it is acknowledged as that."""
    row = new_row(account, press.chat, press.sender_id, press.sender_name, press.press_id,
                  {"actionId": press.action_id, "cardMessageId": press.message_id}, raw)  # fmt: skip
    destination = Destination(account, Target(press.chat, press_id=press.press_id))
    told = "This button does nothing any more."
    commands.record(Arrival(row, press.keys), "unknown_action", destination, told, kind="press")


def _note(account: ChannelAccount, noted: ChatNoted, raw: bytes) -> None:
    row = new_row(
        account, noted.chat, noted.sender_id, noted.sender_name, noted.keys[0], {}, raw, sent_at=noted.sent_at
    )
    commands.record(Arrival(row, noted.keys), noted.note, Destination(account, Target(noted.chat)), "")


def _stop(account: ChannelAccount, adapter: ChannelAdapter, chat: Chat) -> None:
    key = session_key(adapter, account, chat, chat.id)
    if session := Session.objects.filter(key=str(key)).first():
        cancel_session_runs(session, reason="Stopped.")


def _move_chat(account: ChannelAccount, adapter: ChannelAdapter, old: str, new: str) -> None:
    """A group's sessions go on under its new id; what waits to be sent goes there."""
    for session in Session.objects.filter(channel=adapter.name, account_id=account.account_id, sender_id=old):
        _rename(session, new)
    move_chat(account, old, new)


def _rename(session: Session, sender_id: str) -> None:
    thread = parse_key(session.key).thread_id
    key = SessionKey(session.channel, session.account_id, sender_id, thread)
    try:
        with transaction.atomic():
            Session.objects.filter(pk=session.pk).update(sender_id=sender_id, key=str(key))
    except IntegrityError:
        logger.warning("session %s keeps its old chat: the new one has a session already", session.key)
