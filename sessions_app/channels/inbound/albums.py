"""Albums: files that people see as one message and platforms bring one by one. What comes within a moment is joined."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit_app.kernel.ids import first_id_at
from sessions_app.channels.attachments import model_text
from sessions_app.channels.attachments import records as attachments
from sessions_app.channels.messages import Attachment
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.models import Attachment as StoredAttachment
from sessions_app.models import ChannelAccount, InboundMessage, Turn
from sessions_app.services import Accepted

NOT_ADDRESSED = "not_addressed"
_WITHIN = timedelta(minutes=1)


class _Begun(Exception):
    """The album's run is under way and waits for no more."""


def join(arrival: InboundRecord) -> Accepted | None:
    """Add a message to the album that began before it; None when there is none, or its run has begun."""
    if (begun := _find_begun(arrival)) is None:
        return None
    turn, accepted = begun
    try:
        with transaction.atomic():
            arrival.claim_keys()
            arrival.store(turn=turn)
            _add(turn, arrival.row.account, arrival.files)
    except _Begun:
        return None
    except IntegrityError:
        if arrival.find_earlier() is None:
            raise
    return accepted


def begin_or_join(arrival: InboundRecord, receive: Callable[[InboundRecord], Accepted | None]) -> Accepted | None:
    """Have a part of an album received. Of two that come at once one begins it, and the other joins it; one that comes
    when the run of the others has begun is a message of its own."""
    try:
        return receive(replace(arrival, begins_album=True))
    except IntegrityError:
        return join(arrival) or receive(arrival)


def gather(arrival: InboundRecord, accepted: Accepted) -> None:
    """Add what came before the message by which the album, in a group, turned out to be meant for us."""
    turn = Turn.objects.get(pk=accepted.turn_id)
    for row in _others(arrival).filter(reason=NOT_ADDRESSED).order_by("id"):
        if not _take_along(row, turn):
            return


def catch_up(arrival: InboundRecord) -> Accepted | None:
    """After a message was left aside: add it all the same when its album turned out meanwhile to be meant for us. Who
    stores first and then looks cannot be missed by `gather`, which does so too."""
    if (begun := _find_begun(arrival)) is None:
        return None
    turn, accepted = begun
    return accepted if _take_along(arrival.row, turn) else None


def _find_begun(arrival: InboundRecord) -> tuple[Turn, Accepted] | None:
    """The turn of the album that the message is a part of, and what became of it."""
    first = _others(arrival).filter(reason="").order_by("id").first()
    if first is None or first.turn is None or first.session is None or first.run_id is None:
        return None
    accepted = Accepted(first.session.pk, first.session.key, first.turn.pk, first.run_id, first.turn.ordinal)
    return first.turn, accepted


def _take_along(row: InboundMessage, turn: Turn) -> bool:
    """Make a message that was left aside a part of the turn. False when the turn's run has begun."""
    files = [_file_of(stored) for stored in row.attachments]
    try:
        with transaction.atomic():
            moved = InboundMessage.objects.filter(pk=row.pk, reason=NOT_ADDRESSED)
            if moved.update(reason="", turn=turn, run_id=turn.run_id, session_id=turn.session_id):
                _add(turn, row.account, files)
    except _Begun:
        return False
    return True


def _others(arrival: InboundRecord) -> QuerySet[InboundMessage]:
    """Stored messages of the same album, by the same sender."""
    since = first_id_at(timezone.now() - _WITHIN)
    rows = InboundMessage.objects.select_related("account", "turn", "session").filter(
        account_id=arrival.row.account_id, sender_id=arrival.row.sender_id, id__gte=since
    )
    return rows.filter(metadata__albumId=arrival.album_id).exclude(pk=arrival.row.pk)


def _add(turn: Turn, account: ChannelAccount, files: Sequence[Attachment]) -> None:
    if not attachments.add(turn, account, files, is_album=True):
        raise _Begun
    said = InboundMessage.objects.filter(turn=turn).exclude(text="").order_by("id").values_list("text", flat=True)
    names = StoredAttachment.objects.filter(turn=turn).order_by("id").values_list("kind", "filename")
    Turn.objects.filter(pk=turn.pk).update(content="\n\n".join(said) or model_text.named(names))


def _file_of(stored: Mapping[str, Any]) -> Attachment:
    return Attachment(
        stored["id"],
        stored["kind"],
        stored["filename"],
        stored["mimeType"],
        stored["sizeBytes"],
        stored["url"],
        stored["auth"],
    )
