"""Chooses what goes out now. Who has to wait, a chat or a whole account, hides nothing that others could send."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from time import monotonic
from uuid import UUID

from django.db import DatabaseError, InterfaceError

from audit_app.kernel.database import in_db
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.messages import Target
from sessions_app.channels.outbound import transitions
from sessions_app.channels.outbound.rate_limiter import ChatKey, Pacing
from sessions_app.models import Delivery

# So many messages at once, and so many of them of one account: one that is slow must not keep the others waiting.
_MOST_AT_ONCE, _MOST_OF_ACCOUNT = 100, 25
_LOOK_AT = 200


class Chooser:
    """wake: has the sender look again; called once for whatever is told to wait, when that is over."""

    def __init__(
        self, adapters: Adapters, pacing: Pacing, wake: Callable[[], None], *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._adapters = adapters
        self._pacing = pacing
        self._wake = wake
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[ChatKey, float] = {}  # chats that must not be written to yet, and until when

    async def find_ready(self, sending: Collection[str], busy: Mapping[UUID, int]) -> list[Delivery]:
        """What may go out now, at most as much as there is room for; it counts as sent from here on.

        sending: the lanes in which something is being sent; busy: how much of each account.
        """
        ready: dict[str, Delivery] = {}
        counts = Counter(busy)
        full = {account for account, count in counts.items() if count >= _MOST_OF_ACCOUNT}
        now = self._clock()
        self._waiting = {chat: until for chat, until in self._waiting.items() if until > now}
        while True:
            due = await in_db(transitions.list_due, _LOOK_AT, full, self._waiting)
            known = len(full) + len(self._waiting)
            for row in due:
                if len(sending) + len(ready) >= _MOST_AT_ONCE:
                    return list(ready.values())
                if row.ordering_key in sending or row.ordering_key in ready or row.account_id in full:
                    continue
                if self._may_send(row, full):
                    ready[row.ordering_key] = row
                    counts[row.account_id] += 1
                    if counts[row.account_id] >= _MOST_OF_ACCOUNT:
                        full.add(row.account_id)
            if len(due) < _LOOK_AT or len(full) + len(self._waiting) == known:
                return list(ready.values())

    def _may_send(self, row: Delivery, full: set[UUID]) -> bool:
        """full: takes the account in when it is the account that has to wait."""
        target = Target.from_json(row.target)
        try:
            capabilities = self._adapters.get(row.account).capabilities(target.chat)
        except (DatabaseError, InterfaceError):
            raise
        except Exception:  # of whatever kind: one account must not keep the others from sending
            return True  # so that it is put off, and told
        if target.press_id:
            return True  # platforms do not count what answers a press
        chat = (row.account_id, target.chat.id)
        if chat in self._waiting:
            return False
        wait = self._pacing.take(chat, capabilities)
        if wait:
            self._loop.call_later(wait, self._wake)
            if self._pacing.account_wait(row.account_id, capabilities):
                full.add(row.account_id)
            else:
                self._waiting[chat] = self._clock() + wait
        return wait == 0
