"""Albums: files that people see as one message and platforms bring one by one. What comes within a moment is joined."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from audit_app.kernel.ids import first_id_at
from sessions_app.attachments import describing
from sessions_app.attachments import rows as attachments
from sessions_app.channels.messages import Attachment
from sessions_app.conversation.arrivals import Arrival
from sessions_app.models import Attachment as StoredAttachment
from sessions_app.models import ChannelAccount, InboundMessage, Turn
from sessions_app.services import Accepted

NOT_ADDRESSED = "not_addressed"
_WITHIN = timedelta(minutes=1)


class _Begun(Exception):
    """The album's run is under way and waits for no more."""


def join(arrival: Arrival) -> Accepted | None:
    """Add a message to the album that began before it; None when there is none, or its run has begun."""
    first = _others(arrival).filter(reason="").order_by("id").first()
    if first is None or first.turn is None or first.session is None or first.run_id is None:
        return None
    accepted = Accepted(first.session.pk, first.session.key, first.turn.pk, first.run_id, first.turn.ordinal)
    try:
        with transaction.atomic():
            arrival.claim_keys()
            arrival.store(turn=first.turn)
            _add(first.turn, arrival.row.account, arrival.files)
    except _Begun:
        return None
    except IntegrityError:
        if arrival.find_earlier() is None:
            raise
    return accepted


def gather(arrival: Arrival, accepted: Accepted) -> None:
    """Add what came before the message by which the album, in a group, turned out to be meant for us."""
    turn = Turn.objects.get(pk=accepted.turn_id)
    for row in _others(arrival).filter(reason=NOT_ADDRESSED).order_by("id"):
        files = [_file_of(stored) for stored in row.attachments]
        try:
            with transaction.atomic():
                moved = InboundMessage.objects.filter(pk=row.pk, reason=NOT_ADDRESSED)
                if moved.update(reason="", turn=turn, run_id=turn.run_id, session_id=turn.session_id):
                    _add(turn, row.account, files)
        except _Begun:
            return


def _others(arrival: Arrival) -> QuerySet[InboundMessage]:
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
    Turn.objects.filter(pk=turn.pk).update(content="\n\n".join(said) or describing.named(names))


def _file_of(stored: Mapping[str, Any]) -> Attachment:
    return Attachment(
        stored["id"], stored["kind"], stored["filename"], stored["mimeType"], stored["sizeBytes"], stored["url"],
        stored["auth"],
    )  # fmt: skip
