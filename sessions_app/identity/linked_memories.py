"""The users behind senders. In their own chats, memories of linked senders are those of the user."""

from uuid import UUID

from agents_app.models import Run
from sessions_app import hot_queries
from sessions_app.identity.own_actors import users_of
from sessions_app.models import SenderLink, Session
from sessions_app.platforms.sender_actors import at_account, find_channel, former_actor, sender_actor
from tools_app.models import Memory
from tools_app.storage import own_memories


class LinkedSenders:
    """Implements `tools_app.storage.memory_holders.Persons` on the links of senders."""

    def remembered_as(self, session_id: UUID, actor: str) -> str:
        """Return the user whom the sender of the session is linked with, else the sender at the session's account.

        A run that an earlier release has stored has an actor without account.
        """
        kind, _, rest = actor.partition(":")
        if kind != "sender":
            return actor
        adapter = find_channel(rest.partition(":")[0].partition("/")[0])
        slug = adapter.slug if adapter else ""
        for channel, account_id, sender_id, user_id in hot_queries.FIND_LINKED_USER.rows(
            session_id=session_id, channel=slug
        ):
            actor = at_account(actor, channel, account_id)
            if user_id and actor == sender_actor(channel, account_id, sender_id):
                return f"user:{user_id}"
        return actor

    def find_user(self, session_id: UUID, actor: str) -> int | None:
        """Return the id of the user who is the actor, or with whom the sender is linked or paired.

        None also for a sender of another account than the session's, and for one with several users.
        """
        kind, _, key = actor.partition(":")
        if kind == "user":
            return int(key) if key.isdecimal() else None
        session = Session.objects.filter(pk=session_id).only("channel", "account_id").first()
        sender_id = key.partition(":")[2]
        if session is None or sender_actor(session.channel, session.account_id, sender_id) != actor:
            return None
        users = users_of(session.channel, session.account_id, {sender_id})
        return users.pop() if len(users) == 1 else None


def move_to_user(link: SenderLink) -> int:
    """Give the user what agents remember of the linked sender, in the caller's transaction. Return the number.

    Only what was written in the sender's own chat with the account: what was written in groups stays there. With it
    goes what an earlier release has stored for the sender's id without an account.
    """
    account, sender_id = link.account, link.sender_id
    assert account is not None  # noqa: S101 - a link has one
    former = former_actor(account.channel, sender_id)
    actors = (sender_actor(account.channel, account.account_id, sender_id), former)
    chats = Session.objects.filter(channel=former.split(":")[1], account_id=account.account_id, sender_id=sender_id)
    runs = Run.objects.filter(conversation_id__in=chats.values("pk"))
    rows = Memory.objects.filter(actor__in=actors, run_id__in=runs.values("pk"))
    return own_memories.move(rows, f"user:{link.user_id}")
