"""The bounded queue of one subscriber at the follower."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from audit_app.follow.items import Item, Position

BUFFERED_ITEMS = 256


class Source(Protocol):
    """The part of a follower that a subscription uses."""

    def join(self, session_id: UUID, seq: int) -> bool: ...
    def watch_run(self, session_id: UUID, run_id: UUID, after: Position, *, is_child: bool) -> None: ...
    def request_read(self, session_id: UUID) -> int: ...
    def unsubscribe(self, subscription: "Subscription") -> None: ...


class Subscription:
    """The items of one session from the moment of subscribing, in order, each stored event once.

    live: live entries and passing events are included.
    with_children: child runs are included.
    overflowed: the subscriber was too slow and its queue was dropped; it subscribes again from its last position.
    """

    def __init__(self, source: Source, session_id: UUID, *, live: bool, with_children: bool) -> None:
        self.session_id = session_id
        self.live = live
        self.with_children = with_children
        self.overflowed = False
        self._source = source
        self._batches: deque[Sequence[Item]] = deque()
        self._size = 0
        self._closed = False
        self._arrived = asyncio.Event()

    def join(self, seq: int) -> bool:
        """Join after the caller has read the timeline up to `seq`. True: all later events come here, without a gap.

        False: the follower is further already, so read the timeline again and join again.
        """
        return self._source.join(self.session_id, seq)

    def watch_run(self, run_id: UUID, after: Position, *, is_child: bool = False) -> None:
        """Read the run's stream from after that position too, unless it is being read already."""
        self._source.watch_run(self.session_id, run_id, after, is_child=is_child)

    def request_read(self) -> int:
        """Read the timeline again at once. A CaughtUp with at least the returned number follows its events."""
        return self._source.request_read(self.session_id)

    def put(self, batch: Sequence[Item]) -> None:
        """Queue a batch; called by the follower. An empty queue takes a batch of any size."""
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
        """Wait for items and return all there are; none once the subscription is closed or has overflowed."""
        while not self._batches and not self.overflowed and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        items = [item for batch in self._batches for item in batch]
        self._batches.clear()
        self._size = 0
        return items

    def close(self) -> None:
        """Unsubscribe; a waiting `take` returns."""
        if not self._closed:
            self._closed = True
            self._source.unsubscribe(self)
            self._arrived.set()
