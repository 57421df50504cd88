"""The commands /link and /unlink: a sender becomes, or no longer is, a user of this installation."""

from datetime import timedelta

from django.db import transaction

from sessions_app.channels.inbound.commands import record
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.conversation.inbound_record import InboundRecord, count_refused
from sessions_app.identity import sender_links
from sessions_app.identity.actor_names import display_name
from sessions_app.identity.sender_links import Claim

COMMANDS = ("/link", "/unlink")
FAILED, CLOSED = "link_failed", "linking_closed"
MOST_TRIES, TRIES_WITHIN = 5, timedelta(hours=1)

_DIRECT_ONLY = "Send me this in a private chat: in a group, others would read it, too."
_USAGE = "Usage: `/link CODE`. The code is on the page of your account, under *Linked channels*."
_WRONG_CODE = f"This code is not valid. A code works once, within {sender_links.MINUTES} minutes."
_LINKED = "You are linked with a user already. Send `/unlink` first."
_UNLINKED = "This chat is no longer linked. What I remembered stays with the user."
_NUMBER = """Your number is `{number}`. Enter it on the page where you got the code: that links this chat with the \
user `{name}`, and I will remember the same about you here and there.

Give the number to nobody. If you are not that user, ignore this message."""


def handle(arrival: InboundRecord, destination: Destination, text: str) -> None:
    """Carry out `/link` or `/unlink`, once."""
    command, *arguments = text.split()
    reason = f"command_{command.removeprefix('/')}"
    if destination.target.chat.type != "direct":
        record(arrival, reason, destination, _DIRECT_ONLY)
    elif command == "/unlink":
        _unlink(arrival, destination, reason)
    elif len(arguments) != 1:
        record(arrival, reason, destination, _USAGE)
    elif count_refused(destination.account.pk, arrival.row.sender_id, [FAILED], TRIES_WITHIN) >= MOST_TRIES:
        record(arrival, CLOSED, destination, "")
    else:
        _link(arrival, destination, reason, arguments[0])


def _link(arrival: InboundRecord, destination: Destination, reason: str, code: str) -> None:
    account, row = destination.account, arrival.row
    if sender_links.find_link(account, row.sender_id):
        record(arrival, reason, destination, _LINKED)
        return
    with transaction.atomic():  # a code works once: if the message is not stored, the code must stay unused
        claim = sender_links.claim(account, code, row.sender_id, row.sender_name)
        if claim:
            record(arrival, reason, destination, _number_of(claim))
        else:
            record(arrival, FAILED, destination, _WRONG_CODE)


def _number_of(claim: Claim) -> str:
    return _NUMBER.format(number=claim.number, name=display_name(claim.user).replace("`", ""))


def _unlink(arrival: InboundRecord, destination: Destination, reason: str) -> None:
    with transaction.atomic():
        was_linked = sender_links.unlink_sender(destination.account, arrival.row.sender_id)
        record(arrival, reason, destination, _UNLINKED if was_linked else "This chat is not linked.")
