"""Albums: files that people see as one message and platforms deliver one by one. They become one user turn."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit_app.kernel.ids import first_id_at
from sessions_app.attachments import records as attachments
from sessions_app.channels.inbound import turn_texts
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.models import ChannelAccount, InboundMessage, Turn
from sessions_app.platforms.messages import Attachment
from sessions_app.services import Accepted

NOT_ADDRESSED = "not_addressed"
_WITHIN = timedelta(minutes=1)


class _RunBegun(Exception):
    """The album's run has begun and takes no more files."""


def join(arrival: InboundRecord) -> Accepted | None:
    """Add a message to the turn of its album. Returns None if there is none, or its run has begun."""
    if (begun := _find_begun(arrival)) is None:
        return None
    turn, accepted = begun
    try:
        with transaction.atomic():
            arrival.claim_keys()
            arrival.store(turn=turn)
            _add(turn, arrival.row.account, arrival.files)
    except _RunBegun:
        return None
    except IntegrityError:
        if arrival.find_earlier() is None:
            raise
    return accepted


def begin_or_join(arrival: InboundRecord, receive: Callable[[InboundRecord], Accepted | None]) -> Accepted | None:
    """Receive a part of an album. Of two concurrent parts, one begins the album and the other joins it.

    A part that arrives when the album's run has begun becomes a message of its own.
    """
    try:
        return receive(replace(arrival, begins_album=True))
    except IntegrityError:
        return join(arrival) or receive(arrival)


def gather(arrival: InboundRecord, accepted: Accepted) -> None:
    """Add the earlier parts of an album in a group, once one of its parts has addressed us."""
    turn = Turn.objects.get(pk=accepted.turn_id)
    for row in _others(arrival).filter(reason=NOT_ADDRESSED).order_by("id"):
        if not _add_stored(row, turn):
            return


def catch_up(arrival: InboundRecord) -> Accepted | None:
    """Add a part that did not address us itself, if another part of its album has done so meanwhile.

    Both this and `gather` store first and look afterwards, so that no part is missed.
    """
    if (begun := _find_begun(arrival)) is None:
        return None
    turn, accepted = begun
    return accepted if _add_stored(arrival.row, turn) else None


def _find_begun(arrival: InboundRecord) -> tuple[Turn, Accepted] | None:
    """Return the turn of the message's album and its result, or None."""
    first = _others(arrival).filter(reason="").order_by("id").first()
    if first is None or first.turn is None or first.session is None or first.run_id is None:
        return None
    accepted = Accepted(first.session.pk, first.session.key, first.turn.pk, first.run_id, first.turn.ordinal)
    return first.turn, accepted


def _add_stored(row: InboundMessage, turn: Turn) -> bool:
    """Add a stored message to the turn. Returns False if the turn's run has begun."""
    files = [Attachment.from_json(stored) for stored in row.attachments]
    try:
        with transaction.atomic():
            moved = InboundMessage.objects.filter(pk=row.pk, reason=NOT_ADDRESSED)
            if moved.update(reason="", turn=turn, run_id=turn.run_id, session_id=turn.session_id):
                _add(turn, row.account, files)
    except _RunBegun:
        return False
    return True


def _others(arrival: InboundRecord) -> QuerySet[InboundMessage]:
    since = first_id_at(timezone.now() - _WITHIN)
    rows = InboundMessage.objects.select_related("account", "turn", "session").filter(
        account_id=arrival.row.account_id, sender_id=arrival.row.sender_id, id__gte=since
    )
    return rows.filter(metadata__albumId=arrival.album_id).exclude(pk=arrival.row.pk)


def _add(turn: Turn, account: ChannelAccount, files: Sequence[Attachment]) -> None:
    if not attachments.add(turn, account, files, is_album=True):
        raise _RunBegun
    turn_texts.write(turn)
