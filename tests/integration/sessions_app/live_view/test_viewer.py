"""A viewer on the real Valkey and database: live, late, cut off and resumed."""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
import redis

from agents_app.events import MESSAGE_RESET, RUN_COMPLETED, RUN_QUEUED, RUN_STARTED, RUN_WAITING
from audit_app import follow, stream, timeline
from audit_app.follow.subscription import BUFFERED_ITEMS
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.ids import new_id
from audit_app.timeline import list_events
from sessions_app.events import MESSAGE_COMPLETED, MESSAGE_RECEIVED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer, cursor_now, wait_until_ended
from tests.integration.audit_app.timelines import Conversation
from tests.support.conditions import happens
from tests.unit.sessions_app.live_view.watched_world import Screen, World
from tools_app.events import TOOL_COMPLETED, TOOL_REQUESTED, TOOL_STARTED

pytestmark = pytest.mark.django_db(transaction=True)

STORED = {0: "Let me see… 🙂", 1: "It is 391."}


@pytest.fixture
def conversation(valkey: "redis.Redis") -> Conversation:
    return Conversation(valkey)


def view(conversation: Conversation, cursor: str = "") -> Viewer:
    return Viewer(conversation.id, cursor, find_text=lambda run_id, step: STORED.get(step))


async def begin(conversation: Conversation) -> None:
    await conversation.keep(MESSAGE_RECEIVED, RUN_QUEUED)
    await conversation.keep(RUN_STARTED)
    conversation.live("1-1", "run.claimed", fence=1)


async def use_a_tool(conversation: Conversation) -> None:
    """Write two pieces of text, and a tool call with its result."""
    conversation.text("1-2", 0, 0, STORED[0][:5])
    conversation.text("1-3", 0, 5, STORED[0][5:])
    await conversation.keep(TOOL_REQUESTED, step=0, execution_id="7", text_length=len(STORED[0]))
    await in_db(conversation.pass_on, TOOL_STARTED, execution_id="7", tool="calculator")
    await conversation.keep(TOOL_COMPLETED, step=0, execution_id="7")


async def answer(conversation: Conversation) -> None:
    """Write a claim that crashes during its answer, and one that completes it."""
    conversation.live("2-1", "run.claimed", fence=2)
    conversation.text("2-2", 1, 0, "It i")
    conversation.live("3-1", "run.claimed", fence=3)
    conversation.live("3-2", MESSAGE_RESET.name, 1, reason="resumed")
    conversation.text("3-3", 1, 0, STORED[1][:4])
    conversation.text("3-4", 1, 4, STORED[1][4:])
    await conversation.keep(MESSAGE_COMPLETED, step=1, text_length=len(STORED[1]))
    await conversation.keep(RUN_COMPLETED)


async def see(viewer: Viewer, last: str = "run.completed", seconds: float = 60) -> list[SessionEvent]:
    """Return all events until one of that type, or until the time is over."""
    seen: list[SessionEvent] = []
    with suppress(TimeoutError):
        async with viewer, asyncio.timeout(seconds):
            async for frame in viewer.frames():
                seen += frame
                if any(event.type == last for event in frame):
                    break
    return seen


async def screen_of(conversation: Conversation) -> Screen:
    world = World(kept=await in_db(timeline.list_events, conversation.id))
    world.stored = {(conversation.run_id, step): text for step, text in STORED.items()}
    return Screen(world)


async def test_a_viewer_who_was_there_sees_the_run_live(conversation):
    seeing = asyncio.ensure_future(see(view(conversation)))
    await begin(conversation)
    await use_a_tool(conversation)
    await answer(conversation)
    seen = await seeing
    (await screen_of(conversation)).show(*seen).assert_complete()
    # How much came live depends on who was faster; that it is whole does not.
    assert {"text.delta", "snapshot"} & {event.type for event in seen}


async def test_a_viewer_can_resume_after_any_event(conversation):
    seeing = asyncio.ensure_future(see(view(conversation)))
    for write in (begin, use_a_tool, answer):
        await write(conversation)
    screen = await screen_of(conversation)
    for event in (await seeing)[:-1]:
        rest = await see(view(conversation, screen.show(event) and event.cursor))
        screen.copy().show(*rest).assert_complete()


async def test_a_viewer_resumes_during_a_run_and_continues_live(conversation):
    seeing = asyncio.ensure_future(see(view(conversation), last="tool.requested"))
    await begin(conversation)
    await use_a_tool(conversation)
    screen = await screen_of(conversation)
    events = await seeing
    resumed = [asyncio.ensure_future(see(view(conversation, event.cursor))) for event in events]
    await answer(conversation)
    for event, rest in zip(events, resumed, strict=True):
        screen.world = (await screen_of(conversation)).world
        screen.show(event).copy().show(*await rest).assert_complete()


async def test_a_page_that_starts_from_the_timeline_gets_the_open_text(conversation):
    await begin(conversation)
    conversation.text("1-2", 0, 0, "Let ")
    conversation.text("1-3", 0, 4, "me see")
    cursor = await in_db(cursor_now, conversation.id)
    seen = await see(view(conversation, cursor), last="snapshot")
    assert [(event.type, event.payload["text"]) for event in seen][:1] == [("snapshot", "Let ")]
    assert cursor == "3"


async def test_the_stored_text_comes_when_the_stream_is_gone(conversation, valkey):
    await begin(conversation)
    await use_a_tool(conversation)
    valkey.flushall()
    seen = await see(view(conversation, "3.1-2"), last="tool.completed")
    assert [event.type for event in seen] == ["snapshot", "tool.requested", "tool.completed"]
    assert seen[0].payload == {"text": STORED[0]}


async def test_live_text_makes_a_viewer_read_the_events_before_it(conversation, monkeypatch):
    """The hint of the run's start is lost: the text that needs the event causes a read, not a poll."""
    monkeypatch.setattr("audit_app.follow.follower._POLL_SECONDS", 600)
    await conversation.keep(RUN_QUEUED)
    async with view(conversation) as viewer, asyncio.timeout(60):
        frames = viewer.frames()
        await anext(frames)
        await conversation.keep(MESSAGE_RECEIVED)
        await anext(frames)  # from here on the follower listens
        monkeypatch.setattr(stream, "send_hint", lambda session_id, seq: None)
        await conversation.keep(RUN_STARTED)
        conversation.text("1-1", 0, 0, "Hi")
        assert [event.type for event in await anext(frames)] == ["run.started", "text.delta"]


async def test_a_viewer_who_has_read_less_than_the_follower_reads_on(conversation, monkeypatch):
    await begin(conversation)
    events = await in_db(list_events, conversation.id)
    stale = [events[:1]]
    async with view(conversation) as first:
        await anext(first.frames())
        monkeypatch.setattr(
            timeline, "list_events", lambda *args, **kw: stale.pop() if stale else list_events(*args, **kw)
        )
        seen = await see(view(conversation), last="run.started")
    assert [event.seq for event in seen if event.seq] == [1, 2, 3] and not stale


async def test_an_ended_run_can_be_seen_whole_at_any_time(conversation, valkey):
    for write in (begin, use_a_tool, answer):
        await write(conversation)
    valkey.flushall()
    seen = await see(view(conversation))
    (await screen_of(conversation)).show(*seen).assert_complete()


async def test_a_cursor_ahead_of_the_timeline_continues_from_its_end(conversation):
    await begin(conversation)
    seeing = asyncio.ensure_future(see(view(conversation, "900.4-4"), last="run.waiting"))
    while not seeing.done():
        await conversation.keep(RUN_WAITING)
        await asyncio.wait([seeing], timeout=0.05)
    assert {event.type for event in await seeing} == {"run.waiting"}


async def test_a_foreign_cursor_is_refused(conversation):
    with pytest.raises(InvalidInput):
        view(conversation, "next")


async def test_a_slow_viewer_overflows_and_resumes(conversation):
    await begin(conversation)
    async with view(conversation) as slow, view(conversation) as fast:
        slow_frames, shown, written = slow.frames(), 0, 0
        seen = await anext(slow_frames)
        async for frame in fast.frames():
            shown += sum(len(event.payload["text"]) for event in frame if event.type == "text.delta")
            if shown >= 600:
                break
            while written < shown + 100:
                conversation.text(f"1-{written + 2}", 0, written, "x")
                written += 1
        seen += [event async for frame in slow_frames for event in frame]
    assert slow.overflowed and not fast.overflowed
    async with view(conversation, seen[-1].cursor) as resumed:
        [event] = await anext(resumed.frames())
    assert event.payload == {"offset": 0, "text": "x" * written}


async def test_waiting_returns_when_the_run_ends(conversation):
    await begin(conversation)
    waiting = asyncio.ensure_future(wait_until_ended(conversation.id, conversation.run_id, 600))
    await asyncio.sleep(0.05)  # the time in which the wait would end
    assert not waiting.done()
    await conversation.keep(RUN_COMPLETED)
    assert await asyncio.wait_for(waiting, 60)


async def test_waiting_survives_an_overflow_of_its_subscription(conversation, monkeypatch):
    await begin(conversation)
    made: list[Any] = []
    follower = follow.current_follower()
    subscribe = follower.subscribe

    def record(*names, **options):
        made.append(subscribe(*names, **options))
        return made[-1]

    monkeypatch.setattr(follower, "subscribe", record)
    waiting = asyncio.ensure_future(wait_until_ended(conversation.id, conversation.run_id, 600))
    await happens(lambda: made)
    made[0].put([object()])
    made[0].put([object()] * BUFFERED_ITEMS)
    assert made[0].overflowed
    await happens(lambda: len(made) == 2 or waiting.done())
    assert not waiting.done(), "the run goes on"
    await conversation.keep(RUN_COMPLETED)
    assert await asyncio.wait_for(waiting, 60)


async def test_waiting_for_an_ended_run_returns_at_once(conversation):
    await begin(conversation)
    await conversation.keep(RUN_COMPLETED)
    assert await asyncio.wait_for(wait_until_ended(conversation.id, conversation.run_id, 600), 60)


async def test_waiting_gives_up_after_its_time(conversation):
    await begin(conversation)
    assert not await wait_until_ended(conversation.id, conversation.run_id, 0.05)


async def test_the_end_of_another_run_does_not_end_the_wait(conversation):
    await begin(conversation)
    await conversation.keep(RUN_COMPLETED, run_id=new_id())
    assert not await wait_until_ended(conversation.id, conversation.run_id, 0.1)


async def test_the_cursor_of_an_unknown_session_is_its_beginning():
    assert await in_db(cursor_now, UUID(int=5)) == "0"
