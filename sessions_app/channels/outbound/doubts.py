"""Deliveries that may not have arrived: the next message of their chat is preceded by a notice about them."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from django.utils.text import Truncator

from audit_app.kernel.database import retry_until_stored
from sessions_app.models import Delivery
from sessions_app.platforms.base import ChannelAdapter, SendCertainty, SendError
from sessions_app.platforms.messages import Outgoing

logger = logging.getLogger(__name__)

_EXCERPT = 100


async def send_notice(adapter: ChannelAdapter, message: Outgoing, ordering_key: str) -> None:
    """Send a notice about the open doubts of a chat before its next message.

    Raises SendError if the message has to wait, since the order of messages is kept. A notice that may have arrived is
    sent again: that is harmless, unlike a message twice.
    """
    doubts = await retry_until_stored(_list_open, ordering_key)
    if not doubts:  # it has arrived since the message was found
        return
    try:
        for number, rendered in enumerate(adapter.render(notice_of(doubts), message.target.chat)):
            key = f"{message.key}_doubt_{doubts[-1].pk}_{number}"
            await adapter.send(replace(message, key=key, kind="notice", rendered=rendered, part=0, parts=1, buttons=()))
    except SendError as error:
        if error.certainty is SendCertainty.REFUSED and not (error.ends_account or error.moved_to):
            logger.warning("a notice about deliveries that may not have arrived was refused: %s", error.message)
            return
        if error.certainty is SendCertainty.UNKNOWN:
            error.certainty = SendCertainty.NOT_SENT  # of the message that would have followed
        raise
    except Exception:  # a defect of the adapter shows again with the message itself
        logger.exception("a notice about deliveries that may not have arrived could not be sent")
    else:
        await retry_until_stored(_close, [row.pk for row in doubts])


def notice_of(doubts: Sequence[Delivery]) -> str:
    """Return the notice, as Markdown, with the beginning of the last of these deliveries."""
    last = doubts[-1]
    excerpt = Truncator(" ".join((last.filename or last.text).split())).chars(_EXCERPT)
    count = "An earlier message" if len(doubts) == 1 else f"{len(doubts)} earlier messages"
    begins = "It begins" if len(doubts) == 1 else "The last one begins"
    return f"⚠️ {count} may not have arrived. {begins}: “{excerpt}” If you do not see it, ask for it again."


def _list_open(ordering_key: str) -> list[Delivery]:
    return list(Delivery.objects.filter(is_doubt_open=True, ordering_key=ordering_key).order_by("id"))


def _close(pks: Collection[int]) -> None:
    Delivery.objects.filter(pk__in=pks).update(is_doubt_open=False)
