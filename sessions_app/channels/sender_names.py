"""Display names of senders: reported by platforms when they change, looked up where messages lack them."""

import asyncio
import logging
from time import monotonic
from uuid import UUID

from django.db import transaction

from audit_app.kernel.database import in_db
from sessions_app.conversation.message_context import name_author
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import ChannelAccount, InboundMessage, Pairing, SenderLink, Session
from sessions_app.platforms.base import ChannelAdapter, SendError
from sessions_app.platforms.messages import clean_name

logger = logging.getLogger(__name__)

_LOOK_UP_SECONDS = 5.0
_KNOWN_SECONDS = 3600.0
_MOST_KNOWN = 1000


def rename_sender(account: ChannelAccount, channel: str, sender_id: str, name: str) -> None:
    """Store a sender's new name with their sessions, pairing and link. Idempotent. Owns its transaction.

    channel: as in session ids. Sessions of groups, whose names are those of the groups, have other ids.
    """
    name = clean_name(name)
    if not name:
        return
    key = SessionKey(channel, account.account_id, sender_id, "")
    # With and without a thread, by the index. Not by a range of keys: their order depends on the database's language.
    begins_same = Session.objects.filter(key__startswith=str(key))
    of_sender = begins_same.filter(channel=channel, account_id=account.account_id, sender_id=sender_id)
    with transaction.atomic():
        of_sender.exclude(sender_name=name).update(sender_name=name)
        for model in (Pairing, SenderLink):
            model.objects.filter(account=account, sender_id=sender_id).update(sender_name=name)


class Names:
    """The names that one process looked up, each kept for an hour. It belongs to one event loop."""

    def __init__(self) -> None:
        self._known: dict[tuple[UUID, str], tuple[float, str]] = {}

    async def complete(self, account: ChannelAccount, adapter: ChannelAdapter, run_id: UUID, *, is_group: bool) -> None:
        """Store the name of a run's sender, if its messages lack it and the platform, which can be asked, knows it.

        is_group: the messages have contexts, which name the author.
        """
        sender_id = await in_db(_find_nameless_sender, run_id)
        if sender_id and (name := await self._find(account, adapter, sender_id)):
            await in_db(_store_name, account, adapter.name, sender_id, run_id, name)
            if is_group:
                await in_db(name_author, run_id, sender_id, name)

    async def _find(self, account: ChannelAccount, adapter: ChannelAdapter, sender_id: str) -> str:
        key, now = (account.pk, sender_id), monotonic()
        if (known := self._known.get(key)) and now - known[0] < _KNOWN_SECONDS:
            return known[1]
        try:
            async with asyncio.timeout(_LOOK_UP_SECONDS):
                name = clean_name(await adapter.find_name(sender_id))
        except (SendError, TimeoutError) as error:
            logger.info("%s: the name of a sender is unknown: %s", account, error)
            name = ""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = (now, name)
        return name


def _find_nameless_sender(run_id: UUID) -> str:
    rows = InboundMessage.objects.filter(run_id=run_id, sender_name="").order_by("-id")
    return rows.values_list("sender_id", flat=True).first() or ""


def _store_name(account: ChannelAccount, channel: str, sender_id: str, run_id: UUID, name: str) -> None:
    rename_sender(account, channel, sender_id, name)
    rows = InboundMessage.objects.filter(run_id=run_id, sender_id=sender_id, sender_name="")
    rows.update(sender_name=name)
