"""Properties of resuming, for the clients of all protocols.

Wherever a worker crashes and a connection breaks, the client ends with the stored text and receives none of it twice.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_app.follow.items import CaughtUp, LiveEntry
from audit_app.timeline import KeptEvent
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.append_only_text import BREAK
from sessions_app.surfaces.openai.projection_completions import Completion
from tests.unit.sessions_app.live_view.watched_world import FLUSH, World
from tests.unit.sessions_app.surfaces.protocol_readers import (
    ANSWER,
    RUN,
    AgentClient,
    FrontEndClient,
    GatewayClient,
    HubClient,
    PageClient,
    Reader,
    ResponseClient,
    TaskClient,
    ThreadClient,
    VisitorClient,
)

EVERYBODY = [
    ThreadClient,
    ResponseClient,
    AgentClient,
    PageClient,
    VisitorClient,
    HubClient,
    FrontEndClient,
    GatewayClient,
    TaskClient,
]
PREAMBLE, FIRST, LAST = ("Let ", "me."), ("Hel", "lo w", "orld"), ("Do", "ne.")
SECOND = {
    "the same": ("Hello", " world"),
    "something else": ("Now", " this is it"),
    "something that begins alike": ("Hello", " you!"),
    "only the beginning": ("Hel",),
    "nothing": (),
}
# Events between the attempts: those of the new claim, or the loss of the live stream.
CUTS = {
    "a try that failed": ("reset",),
    "a crash": ("claim", "reset"),
    "a crash that nobody tells of": ("claim",),
    "a crash, and Valkey emptied": (FLUSH, "claim", "reset"),
    "Valkey emptied behind a crash": ("claim", FLUSH),
    "Valkey emptied while it failed": (FLUSH,),
}


@dataclass(frozen=True)
class Story:
    """A run with a crash.

    streamed: number of pieces of the first attempt that were streamed.
    rounds: whether a tool was called before and after.
    """

    streamed: int
    second: str
    cut: str
    rounds: tuple[bool, bool]


class Author:
    """Writes the events of a story into a world, as the engine would."""

    def __init__(self, story: Story) -> None:
        self.world = World()
        self._story = story
        self._step = self._fence = self._n = 0
        self._is_lost = False

    def write(self) -> World:
        world, story = self.world, self._story
        world.keep("message.received", RUN, turn_id="question", message_id="question")
        world.keep("run.queued", RUN, ordinal=0, agent_id="default")
        world.keep("run.started", RUN, fence=1, agent_id="default")
        self._claim()
        if story.rounds[0]:
            self._use_tool(self._stream(PREAMBLE))
        self._stream(FIRST[: story.streamed])
        self._break_off(CUTS[story.cut])
        text = self._stream(SECOND[story.second])
        if story.rounds[1] or not text:
            self._use_tool(text)
            text = self._stream(LAST)
        world.stored[RUN, self._step] = text
        world.keep("message.completed", RUN, self._step, turn_id=ANSWER, state="complete", text_length=len(text))
        world.keep("run.completed", RUN, code="", message="", usage={"input_tokens": 0, "output_tokens": 0})
        return world

    def _stream(self, pieces: tuple[str, ...]) -> str:
        text = ""
        for piece in pieces:
            if self._is_lost:
                self._live("snapshot", text=text + piece)
            else:
                self._live("text.delta", offset=len(text), text=piece)
            text, self._is_lost = text + piece, False
        return text

    def _break_off(self, events: tuple[str, ...]) -> None:
        for event in events:
            if event == "claim":
                self._claim()
            elif event == "reset":
                self._live("message.reset", reason="resumed")
            else:
                self.world.write(FLUSH)
        self._is_lost = events[-1] == FLUSH

    def _use_tool(self, text: str) -> None:
        self.world.stored[RUN, self._step] = text
        call = {"execution_id": str(UUID(int=self._step)), "call_id": "c", "tool": "echo", "call_index": 0}
        asked = {"arguments": {}, "risk": "low", "text_length": len(text)}
        self.world.keep("tool.requested", RUN, self._step, **call, **asked)
        ended = {"status": "Completed", "output": "x", "duration_ms": 1}
        self.world.keep("tool.completed", RUN, self._step, **call, **ended)
        self._step += 1
        self._claim()

    def _claim(self) -> None:
        self._fence, self._n = self._fence + 1, 0
        self._live("run.claimed", fence=self._fence)

    def _live(self, kind: str, **fields: object) -> None:
        self._n += 1
        step = None if kind == "run.claimed" else self._step
        self.world.stream(RUN, (self._fence, self._n), kind, step, **fields)


STORIES = st.builds(
    Story,
    st.integers(1, 3),
    st.sampled_from([*SECOND]),
    st.sampled_from([*CUTS]),
    st.tuples(st.booleans(), st.booleans()),
)
often = settings(max_examples=200)


def watched(world: World) -> Iterator[tuple[int, SessionEvent]]:
    """Yield the events of a viewer that stays connected, each with the moment in which it was written."""
    watch, _ = World(stored=world.stored).watch()
    for moment, item in enumerate(world.log, start=1):
        seen = world.feed(watch, [item])
        if watch.needs_read:
            watch.await_read(moment)
            seen += world.feed(watch, [*world.until(moment).kept[watch.seq :], CaughtUp(moment)])
        yield from ((moment, event) for event in seen)


def joined(reader: Reader, world: World, start: int) -> Iterator[tuple[int, SessionEvent]]:
    """Connect the reader at a moment. Yield the events that it is sent, each with the moment of its writing."""
    watch, seen = reader.connect(world.until(start), stream_is_there=True)
    seen += world.until(start).read_again(watch)
    yield from ((start, event) for event in seen)
    for moment, item in enumerate(world.log[start:], start=start + 1):
        seen = world.feed(watch, [item])
        seen += world.until(moment).read_again(watch)
        yield from ((moment, event) for event in seen)


def cut_and_resume(
    reader: Reader, world: World, data: st.DataObject, *, start: int = 0, may_stay: bool = False
) -> Iterator[bool]:
    """Connect the reader, break its connection after some events, and resume at a later moment. Yield after each event
    whether the live stream was complete until then.

    start: the moment at which it connects first.
    may_stay: the connection may also stay, while only the server's viewer restarts because it was too slow.
    """
    was_there = FLUSH not in world.log
    moment, cursor = start, ""
    events = [*joined(deepcopy(reader), world, moment)]
    reader.connect(world.until(moment), stream_is_there=True)
    for event_at, event in events[: data.draw(st.integers(0, len(events)), "events seen")]:
        reader.see(event)
        moment, cursor = event_at, event.cursor
        yield was_there
    moment = data.draw(st.integers(moment, len(world.log)), "back at")
    is_there = data.draw(st.booleans(), "the stream is there")
    now = world.until(moment)
    if may_stay and data.draw(st.booleans(), "its connection stays"):
        watch, seen = now.watch(cursor, stream_is_there=is_there)
    else:
        watch, seen = reader.connect(now, stream_is_there=is_there)
    seen += now.read_again(watch)
    for item in [*world.log[moment:], None]:
        for event in seen:
            reader.see(event)
            yield was_there and is_there
        seen = world.feed(watch, [item]) if item else []
    for event in world.read_again(watch):
        reader.see(event)
        yield was_there and is_there


@pytest.mark.parametrize("reader", EVERYBODY)
@often
@given(STORIES, st.integers(0, 40))
def test_a_client_that_joins_after_a_crash_sees_no_text_of_the_dead_claim(
    reader: type[Reader], story: Story, later: int
) -> None:
    """The dead claim's text is "Hello world", or the beginning of it."""
    story = replace(story, second="something else", cut="a crash that nobody tells of")
    world, client = Author(story).write(), reader()
    crashed = last_place(world, "text.delta", FIRST[story.streamed - 1])
    for _, event in joined(client, world, min(crashed + 2 + later, len(world.log))):
        client.see(event)
    assert not any(piece in "".join(client.sent) for piece in FIRST)


@pytest.mark.parametrize("reader", [HubClient, ResponseClient])
@often
@given(STORIES, st.integers(0, 40), st.data())
def test_an_append_only_client_that_joined_late_resumes_without_a_gap(
    reader: type[Reader], story: Story, later: int, data: st.DataObject
) -> None:
    world, client = Author(replace(story, cut="a crash")).write(), reader()
    between = BREAK if reader is HubClient else ""  # texts of steps are messages of their own
    began = last_place(world, "message.reset", None) + 1
    closed = next(item for item in world.log[began:] if isinstance(item, KeptEvent))
    start = min(began + later, world.log.index(closed))
    for _ in cut_and_resume(client, world, data, start=start):
        pass
    stored, text = [*filter(None, world.stored.values())], "".join(client.sent)
    assert text == between.join(stored) or text.endswith(between + stored[-1])


def last_place(world: World, type_: str, text: str | None) -> int:
    """Return the place in the log of the last live entry with that text."""
    return max(
        place
        for place, item in enumerate(world.log)
        if isinstance(item, LiveEntry) and (item.type, item.payload.get("text")) == (type_, text)
    )


@pytest.mark.parametrize("reader", [each for each in EVERYBODY if each is not HubClient])
@often
@given(STORIES, st.data())
def test_every_client_ends_with_the_stored_text(reader: type[Reader], story: Story, data: st.DataObject) -> None:
    world, client = Author(story).write(), reader()
    for _ in cut_and_resume(client, world, data, may_stay=reader is not PageClient):
        pass
    # A task shows the text of its newest step alone, which is its answer in the end.
    shown = [*world.stored.items()][-1 if reader is TaskClient else 0 :]
    for (_, step), text in shown:
        assert client.text(step) == text


@pytest.mark.parametrize("reader", [ThreadClient, AgentClient, VisitorClient, FrontEndClient, TaskClient])
@often
@given(STORIES, st.data())
def test_text_shown_meanwhile_is_that_of_one_attempt(reader: type[Reader], story: Story, data: st.DataObject) -> None:
    world, client = Author(story).write(), reader()
    attempts = ["".join(pieces) for pieces in (PREAMBLE, FIRST[: story.streamed], SECOND[story.second], LAST)]
    for was_there in cut_and_resume(client, world, data, may_stay=True):
        for step in range(3 if was_there else 0):
            assert any(text.startswith(client.text(step)) for text in attempts)


@often
@given(STORIES, st.data())
def test_an_append_only_client_receives_nothing_twice(story: Story, data: st.DataObject) -> None:
    world, client = Author(story).write(), HubClient()
    *_, is_there = cut_and_resume(client, world, data)
    check_appended(client.tokens, story, world, is_there=is_there)


@often
@given(STORIES)
def test_a_completion_has_the_second_text_where_it_differs(story: Story) -> None:
    world, completion = Author(story).write(), Completion(RUN.hex, "default", 0)
    chunks = [chunk for _, event in watched(world) for chunk in completion.see(event)]
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    check_appended(text, story, world, is_there=True)


def check_appended(text: str, story: Story, world: World, *, is_there: bool) -> None:
    """Check that a text is the stored one, possibly with a piece of the first attempt before it.

    If the live stream is lost, the whole text may be sent again.
    """
    stored = [*world.stored.values()]
    whole = BREAK.join(filter(None, stored))
    attempts = ["".join(FIRST[:count]) for count in range(1, story.streamed + 1)]
    place = int(story.rounds[0])
    with_void = [BREAK.join(filter(None, [*stored[:place], first, *stored[place:]])) for first in attempts]
    if story.second == "the same" and is_there:
        assert text == whole
    elif story.second == "nothing" and is_there:  # the discarded text is not known afterwards
        assert text.replace(BREAK, "") in [each.replace(BREAK, "") for each in (whole, *with_void)]
    elif is_there:
        assert text in (whole, *with_void)
    else:
        assert text == whole or text.endswith(BREAK + stored[-1])
