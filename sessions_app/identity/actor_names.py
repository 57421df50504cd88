"""What people call an actor: `user:7` is Ada Lovelace, `sender:Telegram:501` is Zoë. For people to read, no proof."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.contrib.auth.models import User

from sessions_app.models import InboundMessage, Pairing


def names_of(actors: Iterable[str], session_id: UUID | None = None) -> Mapping[str, str]:
    """The names of some actors. session_id: where senders may have told theirs. At most one query for all users."""
    wanted = set(actors)
    ids = {int(key) for actor in wanted if (key := actor.removeprefix("user:")).isdecimal()}
    users = {user.pk: user for user in User.objects.filter(pk__in=ids)} if ids else {}
    return {actor: _name(actor, users, session_id) for actor in wanted}


def name_of(actor: str, session_id: UUID | None = None) -> str:
    return names_of([actor], session_id)[actor]


def _name(actor: str, users: Mapping[int, User], session_id: UUID | None) -> str:
    kind, _, rest = actor.partition(":")
    if kind == "user" and rest.isdecimal():
        user = users.get(int(rest))
        return user.get_full_name() or user.get_username() if user else "somebody who left"
    if kind == "sender":
        channel, _, sender_id = rest.partition(":")
        return _told_name(sender_id, session_id) or f"{channel} {sender_id}"
    return actor


def _told_name(sender_id: str, session_id: UUID | None) -> str:
    """As the sender's platform spelled it the last time."""
    if session_id is not None:
        messages = InboundMessage.objects.filter(session_id=session_id, sender_id=sender_id).order_by("-id")
        if name := messages.values_list("sender_name", flat=True).first():
            return name
    return Pairing.objects.filter(sender_id=sender_id).values_list("sender_name", flat=True).first() or ""
