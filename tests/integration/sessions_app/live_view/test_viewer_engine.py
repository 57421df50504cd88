"""The live view of the real engine: a viewer sees what is stored, wherever it resumes."""

import asyncio
import json
import threading
from collections.abc import Callable

import pytest

from agents_app import selectors as agents
from agents_app.providers.kinds.scripted import Reply
from audit_app import timeline
from audit_app.kernel.database import in_db
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import Viewer
from sessions_app.services import Accepted
from tests.unit.sessions_app.live_view.watched_world import Screen, World
from tools_app.types import ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


async def see(
    accepted: Accepted,
    cursor: str = "",
    on_event: Callable[[SessionEvent], object] = lambda event: None,
    seconds: float = 60,
) -> list[SessionEvent]:
    """Return all events. on_event: called with each event as it is seen."""
    seen: list[SessionEvent] = []
    async with Viewer(accepted.session_id, cursor) as viewer, asyncio.timeout(seconds):
        async for frame in viewer.frames():
            seen += frame
            for event in frame:
                on_event(event)
            if any(event.type in ("run.completed", "run.failed") for event in frame):
                break
    return seen


async def assert_seen_is_stored(accepted: Accepted, seen: list[SessionEvent]) -> None:
    """Return the cursors of the start and of every event except the last."""
    world = World(kept=await in_db(timeline.list_events, accepted.session_id))
    for step in range(4):
        world.stored[accepted.run_id, step] = await in_db(agents.find_step_text, accepted.run_id, step) or ""
    screen = Screen(world)
    for event in seen[:-1]:
        screen.show(event).copy().show(*await see(accepted, event.cursor)).assert_complete()
    screen.show(seen[-1]).assert_complete()


async def test_a_run_with_tools_is_seen_as_it_is_stored(rig):
    calls = tuple(ToolCall(f"call_{n}", "echo", json.dumps({"text": "x"})) for n in (1, 2))
    await in_db(rig.agent, Reply(("Let me ", "see. 🙂"), tool_calls=calls), Reply(("It ", "is ", "done.")))
    accepted = await in_db(rig.send, "go")
    seen = await see(accepted)
    assert {"tool.requested", "tool.completed", "message.completed"} <= {event.type for event in seen}
    await assert_seen_is_stored(accepted, seen)


async def test_a_run_whose_first_try_breaks_off_is_seen_as_it_is_stored(rig):
    half, reset = threading.Event(), threading.Event()
    broken = Reply(("Half ", "an "), error="model_stream_cut", retryable=True, held_by=half)
    await in_db(rig.agent, broken, Reply(("A whole ", "answer."), held_by=reset))
    accepted = await in_db(rig.send, "go")

    def go_on(event: SessionEvent) -> None:
        if event.type in ("text.delta", "snapshot"):
            half.set()
        elif event.type == "message.reset":
            reset.set()

    seen = await see(accepted, on_event=go_on)
    assert "message.reset" in {event.type for event in seen}
    await assert_seen_is_stored(accepted, seen)
