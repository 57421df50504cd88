"""Names to show for users and actors: `user:7` is Ada Lovelace, `sender:Telegram:501` is Zoë. No proof of identity."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q

from sessions_app.models import InboundMessage, Pairing
from sessions_app.platforms.sender_actors import sender_actor
from tools_app.types import ApprovalStatus, ApprovalView

_LONGEST_ID = 18  # digits that fit into the column of every database


def display_name(user: User) -> str:
    """Return the full name of a user, or the user name if there is none."""
    return user.get_full_name() or user.get_username()


def is_named(user: User, sender_id: str) -> bool:
    """Return whether the sender id of a message names this user by id, user name or e-mail address.

    An id of digits only is compared with user ids alone, so that a user name cannot impersonate another user.
    """
    if sender_id.isdigit():
        return sender_id == str(user.pk)
    return sender_id != "" and sender_id.lower() in (user.username.lower(), user.email.lower())


def is_any_user(sender_id: str) -> bool:
    """Return whether the sender id names a user. One query."""
    if sender_id.isdigit():
        return sender_id.isascii() and len(sender_id) <= _LONGEST_ID and User.objects.filter(pk=sender_id).exists()
    named = Q(username__iexact=sender_id) | Q(email__iexact=sender_id)
    return sender_id != "" and User.objects.filter(named).exists()


def names_of(actors: Iterable[str], session_id: UUID | None = None) -> Mapping[str, str]:
    """Return the names of actors, by actor. At most one query for all users, two for each sender.

    session_id: its messages are searched for the names of senders.
    """
    wanted = set(actors)
    ids = {int(key) for actor in wanted if (key := actor.removeprefix("user:")).isdecimal()}
    users = {user.pk: user for user in User.objects.filter(pk__in=ids)} if ids else {}
    return {actor: _name(actor, users, session_id) for actor in wanted}


def name_of(actor: str, session_id: UUID | None = None) -> str:
    """Return the name of one actor; see `names_of`."""
    return names_of([actor], session_id)[actor]


def deciders(approval: ApprovalView) -> tuple[str, ...]:
    """Return the actor who decided a request for approval, or both people who allowed it."""
    is_by_two = approval.first_allowed_by and approval.status is ApprovalStatus.APPROVED
    return (approval.first_allowed_by, approval.decided_by) if is_by_two else (approval.decided_by,)


def name_of_deciders(approval: ApprovalView) -> str:
    """Return the name of who decided a request for approval, or of both people who allowed it."""
    actors = deciders(approval)
    names = names_of(actors, approval.session_id)
    return " and ".join(names[actor] for actor in actors)


def _name(actor: str, users: Mapping[int, User], session_id: UUID | None) -> str:
    kind, _, rest = actor.partition(":")
    if kind == "user" and rest.isdecimal():
        user = users.get(int(rest))
        return display_name(user) if user else "a deleted user"
    if kind == "sender":
        channel, _, sender_id = rest.partition(":")
        return _sender_name(actor, sender_id, session_id) or f"{channel} {sender_id}"
    return actor


def _sender_name(actor: str, sender_id: str, session_id: UUID | None) -> str:
    """Return the newest name that the platform sent for a sender, "" if there is none."""
    if session_id is not None:
        messages = InboundMessage.objects.filter(session_id=session_id, sender_id=sender_id).order_by("-id")
        if name := messages.values_list("sender_name", flat=True).first():
            return name
    columns = ("account__channel", "account__account_id", "sender_id", "sender_name")
    rows = Pairing.objects.filter(sender_id=sender_id).values_list(*columns)
    return next((name for *sender, name in rows if sender_actor(*sender) == actor), "")
