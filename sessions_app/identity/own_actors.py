"""The actors that stand for one user: the user, and the senders whom the user is paired or linked with."""

from collections import Counter

from django.contrib.auth.models import User
from django.db.models import Count

from sessions_app.identity.linked_memories import sender_actor
from sessions_app.models import IS_LINKED, ChannelAccount, Pairing, SenderLink


def own_actors(user: User) -> tuple[str, ...]:
    """Return `user:7` and the senders of the user, such as `sender:Telegram:501`.

    An actor names no account of a channel. A sender is the user's only if the user is paired or linked with that sender
    on all accounts of the channel: on another one, the same id may be somebody else.
    """
    columns = ("account_id", "account__channel", "sender_id")
    paired = Pairing.objects.filter(user=user).exclude(sender_id="").values_list(*columns)
    linked = SenderLink.objects.filter(IS_LINKED, user=user).values_list(*columns)
    found = Counter((channel, sender_id) for _, channel, sender_id in sorted({*paired, *linked}))
    channels = {channel for channel, _ in found}
    accounts = ChannelAccount.objects.filter(channel__in=channels).order_by().values_list("channel")
    counts = dict(accounts.annotate(Count("pk"))) if channels else {}
    senders = (sender_actor(channel, sender_id) for (channel, sender_id), on in found.items() if on == counts[channel])
    return (f"user:{user.pk}", *senders)
