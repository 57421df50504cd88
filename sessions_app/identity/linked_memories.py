"""Memories of linked senders: in their own chats they are those of the user."""

from uuid import UUID

from agents_app.models import Run
from sessions_app import hot_queries
from sessions_app.models import SenderLink, Session
from sessions_app.platforms.registry import channels
from tools_app.models import Memory
from tools_app.storage import own_memories


def sender_actor(channel: str, sender_id: str) -> str:
    """Return a sender as an actor. channel: its slug."""
    adapter = channels.find(channel)
    return f"sender:{adapter.name if adapter else channel}:{sender_id}"


class LinkedSenders:
    """Implements `tools_app.storage.memory_holders.Persons` on the links of senders."""

    def remembered_as(self, session_id: UUID, actor: str) -> str:
        kind, _, rest = actor.partition(":")
        if kind != "sender":
            return actor
        sender_id = rest.partition(":")[2]
        for user_id, channel in hot_queries.FIND_LINKED_USER.rows(session_id=session_id, sender_id=sender_id):
            if sender_actor(channel, sender_id) == actor:
                return f"user:{user_id}"
        return actor


def move_to_user(link: SenderLink) -> int:
    """Give the user what agents remember of the linked sender, in the caller's transaction. Return the number.

    Only what was written in the sender's own chat with the account: an actor names no account, and what was written in
    groups stays there.
    """
    assert link.account is not None  # noqa: S101 - a link has one
    actor = sender_actor(link.account.channel, link.sender_id)
    chats = Session.objects.filter(
        channel=actor.split(":")[1], account_id=link.account.account_id, sender_id=link.sender_id
    )
    runs = Run.objects.filter(conversation_id__in=chats.values("pk"))
    return own_memories.move(Memory.objects.filter(actor=actor, run_id__in=runs.values("pk")), f"user:{link.user_id}")
