"""Senders as actors: `sender:Web/shop:42` is 42 at the account `shop`, `sender:Telegram:501` is 501 at any account.

An id is one of its account, and so is all that belongs to the sender, unless the platform itself proves who has written
(`proves_senders`): the holder of an account's secrets could otherwise claim the ids of another one.
"""

from hashlib import blake2b
from urllib.parse import quote

from sessions_app.platforms.base import ChannelAdapter
from sessions_app.platforms.registry import channels

_LONGEST = 200  # as the columns of actors hold it
_DIGEST_BYTES = 16


def find_channel(name: str) -> type[ChannelAdapter] | None:
    """Return the channel of this name or slug, None if there is none here."""
    return next((adapter for adapter in channels if name in (adapter.name, adapter.slug)), None)


def sender_actor(channel: str, account_id: str, sender_id: str) -> str:
    """Return a sender as an actor. channel: name or slug.

    An actor that is too long ends with a digest instead of the sender's id.
    """
    adapter = find_channel(channel)
    name = adapter.name if adapter else channel
    place = name if adapter and adapter.proves_senders else f"{name}/{quote(account_id, safe='')}"
    actor = f"sender:{place}:{sender_id}"
    if len(actor) < _LONGEST:
        return actor
    digest = blake2b(actor.encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{actor[: _LONGEST - len(digest) - 1]}~{digest}"


def former_actor(channel: str, sender_id: str) -> str:
    """Return a sender as the actor that earlier releases have written, for whatever account. channel: name or slug."""
    adapter = find_channel(channel)
    return f"sender:{adapter.name if adapter else channel}:{sender_id}"


def at_account(actor: str, channel: str, account_id: str) -> str:
    """Return a sender's actor with the account that earlier releases left out; other actors as they are.

    channel: the name of the channel of the session in which the sender has written.
    account_id: of that session.
    """
    sender_id = actor.removeprefix(f"sender:{channel}:")
    return actor if sender_id == actor else sender_actor(channel, account_id, sender_id)
