"""The bounded mailbox of one watcher."""

import asyncio
from unittest.mock import Mock
from uuid import UUID

import pytest

from audit_app.follow.items import CaughtUp
from audit_app.follow.subscription import BUFFERED_ITEMS, Subscription


@pytest.fixture
def subscription() -> Subscription:
    return Subscription(Mock(), UUID(int=1), live=True)


async def test_everything_that_waits_is_taken_at_once(subscription):
    subscription.put([CaughtUp(1)])
    subscription.put([CaughtUp(2), CaughtUp(3)])
    assert await subscription.take() == [CaughtUp(1), CaughtUp(2), CaughtUp(3)]


async def test_taking_waits_for_something_to_come(subscription):
    taking = asyncio.ensure_future(subscription.take())
    await asyncio.sleep(0)
    assert not taking.done()
    subscription.put([CaughtUp(1)])
    assert await taking == [CaughtUp(1)]


async def test_more_than_fits_ends_it(subscription):
    for _ in range(BUFFERED_ITEMS + 1):
        subscription.put([CaughtUp(1)])
    assert await subscription.take() == []
    assert subscription.overflowed


async def test_a_large_batch_is_taken_by_one_who_keeps_up(subscription):
    subscription.put([CaughtUp(1)] * (BUFFERED_ITEMS * 2))
    assert len(await subscription.take()) == BUFFERED_ITEMS * 2
    assert not subscription.overflowed


async def test_closing_ends_it_once(subscription):
    subscription.close()
    subscription.close()
    subscription.put([CaughtUp(1)])
    assert await subscription.take() == []
    subscription._source.unsubscribe.assert_called_once_with(subscription)
