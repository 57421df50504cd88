"""The scheduler of deliveries. A chat or an account that has to wait does not hold up the others."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from audit_app.kernel.database import in_db
from sessions_app.channels.accounts import Adapters
from sessions_app.channels.outbound import transitions
from sessions_app.channels.outbound.rate_limiter import ChatKey, RateLimiter
from sessions_app.models import Delivery
from sessions_app.platforms.messages import Target

# Concurrent sends, and those of one account: a slow one must not hold up the others.
_MOST_AT_ONCE, _MOST_OF_ACCOUNT = 100, 25
_LOOK_AT = 200


class Scheduler:
    """Chooses the deliveries to send now. notify: called when a wait ends, so that the sender looks again."""

    def __init__(self, adapters: Adapters, limiter: RateLimiter, notify: Callable[[], None]) -> None:
        self._adapters, self._limiter, self._notify = adapters, limiter, notify
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[ChatKey, float] = {}  # until when each chat has to wait

    async def find_ready(self, sending: Collection[str], busy: Mapping[UUID, int]) -> list[Delivery]:
        """Return the deliveries to send now, at most as many as may be sent at once. They are charged to the limits.

        sending: the ordering keys of sends under way.
        busy: the number of those of each account.
        """
        ready: dict[str, Delivery] = {}
        counts = Counter(busy)
        full = {account for account, count in counts.items() if count >= _MOST_OF_ACCOUNT}
        now = self._limiter.clock()
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
        """Return whether a delivery may be sent now. Adds its account to `full` if the whole account has to wait."""
        target = Target.from_json(row.target)
        capabilities = self._adapters.capabilities(row.account, target.chat)
        # The sender postpones what cannot be sent, and the platforms' limits do not count replies to button presses.
        if capabilities is None or target.press_id:
            return True
        chat = (row.account_id, target.chat.id)
        if chat in self._waiting:
            return False
        wait = self._limiter.take(chat, capabilities)
        if wait:
            self._loop.call_later(wait, self._notify)
            if self._limiter.account_wait(row.account_id, capabilities):
                full.add(row.account_id)
            else:
                self._waiting[chat] = self._limiter.clock() + wait
        return wait == 0
