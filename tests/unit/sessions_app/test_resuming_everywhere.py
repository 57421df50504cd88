"""Whatever protocol a client speaks, wherever a worker dies in its answer and wherever the client is cut off: when it
has come back, it ends up with the stored text, and has been told none of it twice."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_app.follow.items import CaughtUp
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.append_only_text import BREAK
from sessions_app.surfaces.openai.projection_completions import Completion
from tests.unit.sessions_app.protocol_readers import (
    ANSWER,
    RUN,
    AgentClient,
    HubClient,
    PageClient,
    Reader,
    ResponseClient,
    ThreadClient,
)
from tests.unit.sessions_app.watched_world import FLUSH, World

PREAMBLE, FIRST, LAST = ("Let ", "me."), ("Hel", "lo w", "orld"), ("Do", "ne.")
SECOND = {
    "the same": ("Hello", " world"),
    "something else": ("Now", " this is it"),
    "something that begins alike": ("Hello", " you!"),
    "only the beginning": ("Hel",),
    "nothing": (),
}
# What comes between the attempts: what the new claim writes, or what is lost of it.
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
    """told: pieces of the first attempt that were streamed; rounds: whether a tool was used before and after."""

    told: int
    second: str
    cut: str
    rounds: tuple[bool, bool]


class Author:
    """Writes a story into a world, as the engine would."""

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
        self._stream(FIRST[: story.told])
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
    """What a viewer sees who is there all the time, each fact with the moment in which it was written."""
    watch, _ = World(stored=world.stored).watch()
    for moment, item in enumerate(world.log, start=1):
        seen = world.feed(watch, [item])
        if watch.needs_read:
            watch.await_read(moment)
            seen += world.feed(watch, [*world.until(moment).kept[watch.seq :], CaughtUp(moment)])
        yield from ((moment, fact) for fact in seen)


def cut_and_come_back(reader: Reader, world: World, data: st.DataObject, *, may_stand: bool = False) -> Iterator[bool]:
    """Have the reader see a part of it and come back at some later moment. Gives after each fact whether the live text
    was there all the time.

    may_stand: its connection may also stand, with only the viewer of this side begun anew because it was too slow.
    """
    was_there = FLUSH not in world.log
    reader.connect(World(stored=world.stored), stream_is_there=True)
    moment, cursor = 0, ""
    facts = [*watched(world)]
    for fact_at, fact in facts[: data.draw(st.integers(0, len(facts)), "facts seen")]:
        reader.see(fact)
        moment, cursor = fact_at, fact.cursor
        yield was_there
    moment = data.draw(st.integers(moment, len(world.log)), "back at")
    is_there = data.draw(st.booleans(), "the stream is there")
    now = world.until(moment)
    if may_stand and data.draw(st.booleans(), "its connection stands"):
        watch, seen = now.watch(cursor, stream_is_there=is_there)
    else:
        watch, seen = reader.connect(now, stream_is_there=is_there)
    seen += now.read_again(watch)
    for item in [*world.log[moment:], None]:
        for fact in seen:
            reader.see(fact)
            yield was_there and is_there
        seen = world.feed(watch, [item]) if item else []
    for fact in world.read_again(watch):
        reader.see(fact)
        yield was_there and is_there


@pytest.mark.parametrize("reader", [ThreadClient, ResponseClient, AgentClient, PageClient])
@often
@given(STORIES, st.data())
def test_every_client_ends_up_with_the_stored_text(reader: type[Reader], story: Story, data: st.DataObject) -> None:
    world, client = Author(story).write(), reader()
    for _ in cut_and_come_back(client, world, data, may_stand=reader is not PageClient):
        pass
    for (_, step), text in world.stored.items():
        assert client.text(step) == text


@pytest.mark.parametrize("reader", [ThreadClient, AgentClient])
@often
@given(STORIES, st.data())
def test_what_is_shown_meanwhile_is_what_one_attempt_said(
    reader: type[Reader], story: Story, data: st.DataObject
) -> None:
    world, client = Author(story).write(), reader()
    attempts = ["".join(pieces) for pieces in (PREAMBLE, FIRST[: story.told], SECOND[story.second], LAST)]
    for was_there in cut_and_come_back(client, world, data, may_stand=True):
        for step in range(3 if was_there else 0):
            assert any(text.startswith(client.text(step)) for text in attempts)


@often
@given(STORIES, st.data())
def test_a_client_that_can_only_append_is_told_nothing_twice(story: Story, data: st.DataObject) -> None:
    world, client = Author(story).write(), HubClient()
    *_, is_there = cut_and_come_back(client, world, data)
    check_appended(client.tokens, story, world, is_there=is_there)


@often
@given(STORIES)
def test_a_completion_says_the_second_text_where_it_differs(story: Story) -> None:
    world, completion = Author(story).write(), Completion(RUN, "default", 0)
    chunks = [chunk for _, fact in watched(world) for chunk in completion.see(fact)]
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    check_appended(text, story, world, is_there=True)


def check_appended(text: str, story: Story, world: World, *, is_there: bool) -> None:
    """The stored text, perhaps with a part of the first attempt in it. What nobody knows any more is told again as a
    whole."""
    stored = [*world.stored.values()]
    whole = BREAK.join(filter(None, stored))
    attempts = ["".join(FIRST[:count]) for count in range(1, story.told + 1)]
    place = int(story.rounds[0])
    with_void = [BREAK.join(filter(None, [*stored[:place], first, *stored[place:]])) for first in attempts]
    if story.second == "the same" and is_there:
        assert text == whole
    elif story.second == "nothing" and is_there:  # of words that were void nobody knows afterwards that they were said
        assert text.replace(BREAK, "") in [each.replace(BREAK, "") for each in (whole, *with_void)]
    elif is_there:
        assert text in (whole, *with_void)
    else:
        assert text == whole or text.endswith(BREAK + stored[-1])
