"""Properties of the live view: after any writes, losses and interruptions, a client shows the stored text."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_app.follow.items import CaughtUp
from audit_app.timeline import KeptEvent
from sessions_app.live_view.cursor import SessionEvent
from tests.unit.sessions_app.live_view.watched_world import FLUSH, Screen, World

PIECES = st.lists(st.text(st.sampled_from("aé🙂 \n"), min_size=1, max_size=4), max_size=5)
LONGEST = 21
ROOT = UUID(int=1)


class Engine:
    """An engine that writes one run after another into the world, with crashes and retries."""

    def __init__(self, world: World, draw: st.DataObject) -> None:
        self.world = world
        self._data = draw
        self.run_id = UUID(int=0)
        self._fence = 0
        self._n = 0
        self._lost = False
        self._text = ""

    def run(self, number: int) -> bool:
        """Write a run. Return whether it has ended."""
        self.run_id, self._fence = UUID(int=100 + number), 0
        self.world.keep("message.received", self.run_id)
        self.world.keep("run.queued", self.run_id, ordinal=number)
        if self._maybe(8):
            self.world.keep("message.completed", self.run_id, 0, text_length=0, state="partial")
            self.world.keep("run.cancelled", self.run_id)
            return True
        self.world.keep("run.started", self.run_id)
        self._claim()
        rounds = self._draw(st.integers(0, 3))
        for step in range(rounds):
            self._think(step)
            self._use_tools(step)
        if self._maybe(6):
            return False
        self._think(rounds)
        is_late = self._maybe(8)
        self._record(rounds)
        if not is_late:
            self.world.keep("message.completed", self.run_id, rounds, text_length=len(self._text))
        self.world.keep("run.completed", self.run_id)
        if is_late:
            self.world.keep("message.completed", self.run_id, rounds, text_length=len(self._text))
        return True

    def _think(self, step: int) -> None:
        self._stream_text(step, 0)
        attempt = 0
        while self._maybe(4):  # a crash or a failed try: another claim thinks the step again
            attempt += 1
            is_same_claim = self._maybe(2)
            if not is_same_claim:
                self._claim()
            if is_same_claim or self._maybe(2):
                self._write("message.reset", step, reason="crash")
            self._stream_text(step, attempt)

    def _stream_text(self, step: int, attempt: int) -> None:
        """No two attempts have the same length: the event that closes a step identifies its text by length alone."""
        self._text = ""
        for piece in ["x" * LONGEST * attempt, *self._draw(PIECES)]:
            if not piece:
                continue
            if self._maybe(10):
                self._flush()
            if self._maybe(10):
                self._text += piece  # this entry never arrives, and nobody notices
                continue
            if self._maybe(8):
                self._copy(step)
            offset, self._text = len(self._text), self._text + piece
            if self._lost:
                self._lost = False
                self._write("snapshot", step, text=self._text)
            else:
                self._write("text.delta", step, offset=offset, text=piece)
        self.world.attempts.append(self._text)

    def _use_tools(self, step: int) -> None:
        self._record(step)
        calls = [f"{self.run_id.int}-{step}-{index}" for index in range(self._draw(st.integers(1, 2)))]
        for call in calls:
            self.world.keep("tool.requested", self.run_id, step, execution_id=call, text_length=len(self._text))
        if self._maybe(6):
            self._claim()  # died after it had recorded the step: nothing of it is done again
        for call in calls:
            self.world.announce_execution(self.run_id, call)
            self.world.keep("tool.completed", self.run_id, step, execution_id=call)
        self._claim()

    def _record(self, step: int) -> None:
        self.world.stored[self.run_id, step] = self._text

    def _claim(self) -> None:
        self._fence, self._n, self._lost = self._fence + 1, 0, False
        self._write("run.claimed", None, fence=self._fence)

    def _flush(self) -> None:
        self.world.write(FLUSH)
        self._lost = True

    def _copy(self, step: int) -> None:
        """Valkey does not answer: the text so far goes into the database."""
        self._n += 1
        self._lost = True
        self.world.copy(self.run_id, (self._fence, self._n), step, self._text)

    def _write(self, type_: str, step: int | None, **fields: object) -> None:
        self._n += 1
        self.world.stream(self.run_id, (self._fence, self._n), type_, step, **fields)

    def _maybe(self, one_in: int) -> bool:
        return self._draw(st.integers(1, one_in)) == one_in

    def _draw(self, strategy):
        return self._data.draw(strategy)


class ChildEngine(Engine):
    """An engine that writes child runs of a run that waits for them."""

    def run(self, number: int) -> bool:
        self.run_id = UUID(int=200 + number)
        self.world.parents[self.run_id] = ROOT
        for type_ in ("workstream.launched", "run.queued", "run.started"):
            self.world.keep(type_, self.run_id)
        self._claim()
        rounds = self._draw(st.integers(0, 2))
        for step in range(rounds):
            self._think(step)
            self._use_tools(step)
        if self._maybe(3):
            return False
        self._think(rounds)
        self._record(rounds)
        self.world.keep("step.completed", self.run_id, rounds, text_length=len(self._text))
        self.world.keep("run.completed", self.run_id)
        return True


def write_children(data: st.DataObject) -> World:
    world = World()
    for type_ in ("run.queued", "run.started"):
        world.keep(type_, ROOT)
    world.stream(ROOT, (1, 1), "run.claimed", None, fence=1)
    for number in range(data.draw(st.integers(1, 3))):
        ChildEngine(world, data).run(number)
    return world


def write_world(data: st.DataObject) -> World:
    world = World()
    engine = Engine(world, data)
    number = 0
    while engine.run(number) and number < 1 and data.draw(st.booleans()):
        number += 1
    return world


def watch_live(world: World, data: st.DataObject) -> list[SessionEvent]:
    """Return all events of a viewer that was connected all the time. Items come early or late, and perhaps twice."""
    watch, seen = World(world.parents).watch()
    late: dict[bool, list] = {True: [], False: []}
    for written, item in enumerate([*world.log, None]):
        if item is not None:
            late[isinstance(item, KeptEvent)].append(item)
        for kept in data.draw(st.permutations([True, False])):
            count = data.draw(st.integers(0, len(late[kept]))) if item else len(late[kept])
            come, late[kept] = late[kept][:count], late[kept][count:]
            seen += world.feed(watch, come + come[-1:])
        if watch.needs_read:
            watch.await_read(written)
            seen += world.feed(watch, [*world.until(written + 1).kept[watch.seq :], CaughtUp(written)])
    return seen + world.read_again(watch)


@given(st.data())
def test_a_viewer_sees_everything_once_and_in_order(data):
    world = write_world(data)
    Screen(world).show(*watch_live(world, data)).assert_complete()


@given(st.data())
def test_a_viewer_can_be_cut_off_after_any_event_and_resume(data):
    world = write_world(data)
    stream_is_there = data.draw(st.booleans())
    events = watch_live(world, data)
    final = Screen(world).show(*events)
    screen = Screen(world)
    for event in events:
        resumed = screen.show(event).copy()
        watch, seen = world.watch(event.cursor, stream_is_there=stream_is_there)
        resumed.show(*seen, *world.read_again(watch)).assert_complete()
        if stream_is_there and FLUSH not in world.log and not world.copies:
            assert resumed.shown == final.shown


@given(st.data())
def test_a_viewer_resumes_during_the_run(data):
    world = write_world(data)
    events = watch_live(world, data)
    cut = data.draw(st.integers(0, len(events) - 1))
    moment = data.draw(st.integers(0, len(world.log)))
    earlier = world.until(moment)
    if int(events[cut].cursor.partition(".")[0]) > len(earlier.kept):
        return  # what it has seen was not written then
    screen = Screen(world).show(*events[: cut + 1])
    watch, seen = earlier.watch(events[cut].cursor)
    seen += earlier.read_again(watch)
    for item in world.log[moment:]:
        seen += world.feed(watch, [item])
    screen.show(*seen, *world.read_again(watch)).assert_complete()


@given(st.data())
def test_a_viewer_of_children_sees_all_of_their_text(data):
    world = write_children(data)
    Screen(world).show(*watch_live(world, data)).assert_complete()


@pytest.mark.parametrize("write", [write_world, write_children])
@given(data=st.data())
def test_a_page_that_knows_the_timeline_alone_catches_up_with_the_open_text(write, data):
    world = write(data)
    seq = data.draw(st.integers(0, len(world.kept)))
    screen = Screen(world)
    screen.seqs = list(range(1, seq + 1))
    screen.closed = {(event.run_id, event.step) for event in world.kept[:seq] if "text_length" in event.payload}
    screen.texts = {place: world.stored.get(place, "") for place in screen.closed}
    watch, seen = world.watch(str(seq))
    screen.show(*seen, *world.read_again(watch)).assert_complete()
