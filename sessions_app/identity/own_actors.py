"""The senders whom users are paired or linked with: as actors that stand for a user, and the other way."""

from collections.abc import Collection

from django.contrib.auth.models import User

from sessions_app.models import IS_LINKED, Pairing, SenderLink
from sessions_app.platforms.sender_actors import sender_actor

_SENDER = ("account__channel", "account__account_id", "sender_id")


def own_actors(user: User) -> tuple[str, ...]:
    """Return `user:7` and the senders of the user, such as `sender:Telegram:501`. Two queries."""
    paired = Pairing.objects.filter(user=user).exclude(sender_id="").values_list(*_SENDER)
    linked = SenderLink.objects.filter(IS_LINKED, user=user).values_list(*_SENDER)
    return (f"user:{user.pk}", *sorted({sender_actor(*sender) for sender in (*paired, *linked)}))


def users_of(channel: str, account_id: str, sender_ids: Collection[str]) -> set[int]:
    """Return the ids of the users who are paired or linked with senders of an account. Two queries.

    channel: name or slug.
    """
    actors = {sender_actor(channel, account_id, sender_id) for sender_id in sender_ids}
    paired = Pairing.objects.filter(sender_id__in=sender_ids, user__isnull=False).values_list(*_SENDER, "user_id")
    linked = SenderLink.objects.filter(IS_LINKED, sender_id__in=sender_ids).values_list(*_SENDER, "user_id")
    return {user_id for *sender, user_id in (*paired, *linked) if sender_actor(*sender) in actors}
