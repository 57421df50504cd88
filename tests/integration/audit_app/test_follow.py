"""One follower shares one read of Valkey and one of the timeline among all subscriptions."""

import asyncio
from contextlib import suppress

import pytest

from audit_app import stream
from audit_app.follow import Follower, LiveEntry, PassingEvent, Subscription
from audit_app.follow.subscription import BUFFERED_ITEMS
from audit_app.kernel.database import in_db
from audit_app.kernel.ids import new_id
from audit_app.timeline import KeptEvent
from tests.integration.audit_app.timelines import RUN_COMPLETED, RUN_QUEUED, RUN_STARTED, Conversation
from tools_app.events import TOOL_PROGRESS, TOOL_STARTED

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def no_poll(monkeypatch):
    """Switch off the poll: events arrive by hints only."""
    monkeypatch.setattr("audit_app.follow.follower._POLL_SECONDS", 600)


async def take(subscription: Subscription, count: int, seconds: float = 60) -> list:
    items: list = []
    async with asyncio.timeout(seconds):
        while len(items) < count:
            taken = await subscription.take()
            assert taken, "the subscription has ended"
            items += taken
    return items


async def listening(follower: Follower, conversation: Conversation) -> Subscription:
    """Return a joined subscription, once the follower reads hints."""
    subscription = follower.subscribe(conversation.id)
    assert subscription.join(0)
    sent = received = 0
    while not received:
        sent += 1
        conversation.pass_on(TOOL_PROGRESS, fraction=sent)
        with suppress(TimeoutError):
            received = (await take(subscription, 1, seconds=0.05 * sent))[-1].payload["fraction"]
    while received < sent:  # events sent before the first one arrived
        received = (await take(subscription, 1))[-1].payload["fraction"]
    return subscription


async def test_a_committed_event_arrives_by_its_hint(follower, conversation, no_poll):
    subscription = await listening(follower, conversation)
    await conversation.keep(RUN_QUEUED, RUN_STARTED)
    assert [event.type for event in await take(subscription, 2)] == ["run.queued", "run.started"]


async def test_an_event_whose_hint_was_lost_arrives_by_the_poll(follower, conversation, monkeypatch):
    monkeypatch.setattr("audit_app.follow.follower._POLL_SECONDS", 0.05)
    subscription = await listening(follower, conversation)
    monkeypatch.setattr(stream, "send_hint", lambda session_id, seq: None)
    await conversation.keep(RUN_QUEUED)
    assert (await take(subscription, 1))[0].seq == 1


async def test_the_stream_of_a_queued_run_is_read_without_delay(follower, conversation, no_poll):
    subscription = await listening(follower, conversation)
    await conversation.keep(RUN_QUEUED)
    await take(subscription, 1)
    conversation.text("1-1", 0, 0, "hello")
    [entry] = await take(subscription, 1)
    assert entry == LiveEntry(conversation.run_id, (1, 1), "text.delta", 0, {"offset": 0, "text": "hello"})


async def test_entries_from_before_the_run_was_followed_arrive_too(follower, conversation):
    subscription = await listening(follower, conversation)
    conversation.text("1-1", 0, 0, "hello")
    await conversation.keep(RUN_QUEUED)
    assert [type(item) for item in await take(subscription, 2)] == [KeptEvent, LiveEntry]


async def test_an_ended_run_is_not_read_any_more(follower, conversation):
    subscription = await listening(follower, conversation)
    await conversation.keep(RUN_QUEUED, RUN_COMPLETED)
    await take(subscription, 2)
    conversation.text("1-1", 0, 0, "late")
    for _ in range(2):
        conversation.pass_on(TOOL_PROGRESS)
        assert [item.type for item in await take(subscription, 1)] == ["tool.progress"]


async def test_a_run_is_read_from_the_position_of_a_subscriber(follower, conversation):
    for n in (1, 2, 3):
        conversation.text(f"1-{n}", 0, n, "x")
    subscription = await listening(follower, conversation)
    subscription.watch_run(conversation.run_id, (1, 2))
    assert [item.position for item in await take(subscription, 1)] == [(1, 3)]


async def test_the_stream_of_a_child_run_reaches_only_those_that_want_it(follower, conversation, no_poll):
    conversation.parent_run_id = new_id()
    other = await listening(follower, conversation)
    following = follower.subscribe(conversation.id, with_children=True)
    assert following.join(0)
    await conversation.keep(RUN_QUEUED)
    conversation.text("1-1", 0, 0, "hello")
    assert [item.type for item in await take(following, 2)] == ["run.queued", "text.delta"]
    following.close()
    await conversation.keep(RUN_COMPLETED)
    assert [item.type for item in await take(other, 2)] == ["run.queued", "run.completed"]


async def test_all_subscribers_share_one_decoded_entry(follower, conversation):
    subscriptions = [await listening(follower, conversation)]
    subscriptions += [follower.subscribe(conversation.id) for _ in range(50)]
    await conversation.keep(RUN_QUEUED)
    conversation.text("1-1", 0, 0, "hello")
    received = [(await take(subscription, 2))[1] for subscription in subscriptions]
    assert len({id(entry) for entry in received}) == 1


async def test_a_slow_subscriber_overflows_and_others_do_not(follower, conversation):
    slow, fast = follower.subscribe(conversation.id), await listening(follower, conversation)
    for _ in range(3):
        for _ in range(BUFFERED_ITEMS // 2):
            conversation.pass_on(TOOL_PROGRESS)
        await take(fast, BUFFERED_ITEMS // 2)
    assert await slow.take() == []
    assert slow.overflowed and not fast.overflowed


async def test_a_subscriber_behind_the_follower_must_read_again(follower, conversation):
    subscription = await listening(follower, conversation)
    await conversation.keep(RUN_QUEUED)
    await take(subscription, 1)
    late = follower.subscribe(conversation.id)
    assert not late.join(0)
    assert late.join(1)


async def test_an_event_between_reading_and_joining_is_not_missed(follower, conversation, valkey, no_poll):
    await listening(follower, Conversation(valkey))
    subscription = follower.subscribe(conversation.id)
    await conversation.keep(RUN_QUEUED)
    conversation.pass_on(TOOL_PROGRESS)
    assert [item.type for item in await take(subscription, 1)] == ["tool.progress"]
    subscription.join(0)
    assert [item.type for item in await take(subscription, 1)] == ["run.queued"]


async def test_a_subscription_to_stored_events_gets_no_live_ones(follower, conversation):
    waiter = follower.subscribe(conversation.id, live=False)
    waiter.join(0)
    await conversation.keep(RUN_QUEUED)
    await take(waiter, 1)
    conversation.text("1-1", 0, 0, "hello")
    conversation.pass_on(TOOL_PROGRESS)
    await conversation.keep(RUN_COMPLETED)
    assert [item.type for item in await take(waiter, 1)] == ["run.completed"]


async def test_passing_events_arrive(follower, conversation):
    subscription = await listening(follower, conversation)
    await in_db(conversation.pass_on, TOOL_STARTED, execution_id="7", tool="calculator")
    payload = {"execution_id": "7", "tool": "calculator"}
    assert await take(subscription, 1) == [PassingEvent("tool.started", conversation.run_id, payload)]


async def test_entries_that_cannot_be_decoded_are_skipped(follower, conversation, valkey):
    subscription = await listening(follower, conversation)
    valkey.xadd(stream.hints_key(), {"s": "nonsense"})
    valkey.xadd(stream.hints_key(), {"s": str(conversation.id), "e": "{"})
    conversation.pass_on(TOOL_PROGRESS)
    assert [item.type for item in await take(subscription, 1)] == ["tool.progress"]


async def test_events_of_other_sessions_do_not_arrive(follower, conversation, valkey):
    subscription = await listening(follower, conversation)
    other = Conversation(valkey)
    await other.keep(RUN_QUEUED)
    await conversation.keep(RUN_QUEUED)
    assert [event.session_id for event in await take(subscription, 1)] == [conversation.id]


async def test_closing_ends_a_waiting_take(follower, conversation):
    subscription = await listening(follower, conversation)
    taking = asyncio.ensure_future(subscription.take())
    await asyncio.sleep(0)
    await follower.aclose()
    assert await asyncio.wait_for(taking, 60) == []
