"""Further recipients that the sender of a message asks for, such as those in the Cc of a mail."""

from dataclasses import replace

from sessions_app.channels.inbound import pairing_codes
from sessions_app.models import ChannelAccount
from sessions_app.platforms.messages import ChannelMessage


def keep_known(account: ChannelAccount, incoming: ChannelMessage) -> ChannelMessage:
    """Return the message with those recipients in its reference that may write to the account themselves.

    A sender can name anybody: without this rule, the account would send what a stranger makes it say to whom they like.
    Of an account that is open to everyone, nobody is known.
    """
    known = [one for one in incoming.copies if account.access != "open" and pairing_codes.may_write(account, one, one)]
    reference = incoming.reference
    return replace(incoming, reference={**reference, "copies": [*reference.get("copies", ()), *known]})
