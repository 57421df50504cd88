"""One watcher's bounded mailbox at the follower."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from audit_app.follow.items import Item, Position

BUFFERED_ITEMS = 256


class Source(Protocol):
    """What a subscription asks of its follower."""

    def join(self, session_id: UUID, seq: int) -> bool: ...
    def watch_run(self, session_id: UUID, run_id: UUID, after: Position) -> None: ...
    def request_read(self, session_id: UUID) -> int: ...
    def unsubscribe(self, subscription: "Subscription") -> None: ...


class Subscription:
    """Items of one session from the moment of subscribing, in order; kept ones repeat none of the follower's.

    overflowed: the watcher was too slow and what it had not taken is gone; it starts anew from its last position.
    """

    def __init__(self, source: Source, session_id: UUID, *, live: bool) -> None:
        self.session_id = session_id
        self.live = live
        self.overflowed = False
        self._source = source
        self._batches: deque[Sequence[Item]] = deque()
        self._size = 0
        self._closed = False
        self._arrived = asyncio.Event()

    def join(self, seq: int) -> bool:
        """Say that the timeline was read elsewhere up to `seq`. True: everything later comes here, without a gap.

        False: the follower is already further, so read on and say so again.
        """
        return self._source.join(self.session_id, seq)

    def watch_run(self, run_id: UUID, after: Position) -> None:
        """Have the run's stream read from after that position, unless it is being read already."""
        self._source.watch_run(self.session_id, run_id, after)

    def request_read(self) -> int:
        """Have the timeline read again at once. A CaughtUp with at least the returned number tells when it was."""
        return self._source.request_read(self.session_id)

    def put(self, batch: Sequence[Item]) -> None:
        """The follower's side. A batch is always taken by a watcher that has nothing waiting, however large."""
        if self.overflowed or self._closed:
            return
        if self._size and self._size + len(batch) > BUFFERED_ITEMS:
            self.overflowed = True
            self._batches.clear()
        else:
            self._batches.append(batch)
            self._size += len(batch)
        self._arrived.set()

    async def take(self) -> list[Item]:
        """Wait for items and return all there are; empty when it is over: closed, or overflowed."""
        while not self._batches and not self.overflowed and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        items = [item for batch in self._batches for item in batch]
        self._batches.clear()
        self._size = 0
        return items

    def close(self) -> None:
        """Leave the follower; whoever waits in `take` returns."""
        if not self._closed:
            self._closed = True
            self._source.unsubscribe(self)
            self._arrived.set()
