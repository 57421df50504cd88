"""The bounded queue of one subscriber."""

import asyncio
from unittest.mock import Mock
from uuid import UUID

import pytest

from audit_app.follow.items import CaughtUp
from audit_app.follow.subscription import BUFFERED_ITEMS, Subscription


@pytest.fixture
def subscription() -> Subscription:
    return Subscription(Mock(), UUID(int=1), live=True, with_children=False)


async def test_all_queued_items_are_taken_at_once(subscription):
    subscription.put([CaughtUp(1)])
    subscription.put([CaughtUp(2), CaughtUp(3)])
    assert await subscription.take() == [CaughtUp(1), CaughtUp(2), CaughtUp(3)]


async def test_take_waits_for_items(subscription):
    taking = asyncio.ensure_future(subscription.take())
    await asyncio.sleep(0)
    assert not taking.done()
    subscription.put([CaughtUp(1)])
    assert await taking == [CaughtUp(1)]


async def test_a_full_queue_overflows(subscription):
    for _ in range(BUFFERED_ITEMS + 1):
        subscription.put([CaughtUp(1)])
    assert await subscription.take() == []
    assert subscription.overflowed


async def test_an_empty_queue_takes_a_batch_of_any_size(subscription):
    subscription.put([CaughtUp(1)] * (BUFFERED_ITEMS * 2))
    assert len(await subscription.take()) == BUFFERED_ITEMS * 2
    assert not subscription.overflowed


async def test_close_is_idempotent(subscription):
    subscription.close()
    subscription.close()
    subscription.put([CaughtUp(1)])
    assert await subscription.take() == []
    subscription._source.unsubscribe.assert_called_once_with(subscription)
