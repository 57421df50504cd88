"""The events that `SessionStream` returns for the items that it is fed, case by case."""

from dataclasses import replace
from uuid import UUID

import pytest

from audit_app.follow.items import CaughtUp, LiveEntry, PassingEvent
from audit_app.timeline import KeptEvent
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.session_stream import SessionStream
from tests.unit.sessions_app.live_view.watched_world import SESSION

RUN, CHILD = UUID(int=100), UUID(int=101)


class Watching:
    """A stream with short ways to feed it. Stored events are numbered automatically."""

    def __init__(self) -> None:
        self.watch = SessionStream(SESSION, 0)
        self.seq = 0

    def kept(self, type_: str, step: int | None = None, run_id: UUID = RUN, **payload: object) -> list[SessionEvent]:
        self.seq += 1
        event = KeptEvent(SESSION, self.seq, self.seq, type_, run_id, None, "", step, "system", payload)
        return self.watch.feed([event])

    def live(self, claim: int, n: int, type_: str, step: int | None = 0, run_id: UUID = RUN, **fields: object):
        return self.watch.feed([LiveEntry(run_id, (claim, n), type_, step, fields)])

    def text(self, n: int, offset: int, text: str, *, step: int = 0, claim: int = 1) -> list[SessionEvent]:
        return self.live(claim, n, "text.delta", step, offset=offset, text=text)

    def read_to_the_end(self) -> list[SessionEvent]:
        assert self.watch.needs_read
        self.watch.await_read(1)
        return self.watch.feed([CaughtUp(1)])


@pytest.fixture
def run() -> Watching:
    """Return the stream of a run that has just started."""
    watching = Watching()
    watching.kept("run.queued")
    watching.kept("run.started")
    watching.live(1, 1, "run.claimed", None, fence=1)
    return watching


def types(seen: list[SessionEvent]) -> list[str]:
    return [event.type for event in seen]


def test_text_comes_with_its_place_and_the_position_behind_it(run):
    assert run.text(2, 0, "Hi") == [SessionEvent("text.delta", SESSION, RUN, 0, {"offset": 0, "text": "Hi"}, "2.1-2")]


def test_kept_events_carry_their_number_and_time(run):
    [event] = run.kept("run.waiting", reason="busy")
    assert (event.seq, event.ts, event.payload, event.cursor) == (3, 3, {"reason": "busy"}, "3.1-1")


def test_an_overlap_is_cut(run):
    run.text(2, 0, "Hell")
    assert run.text(3, 2, "llo!")[0].payload == {"offset": 4, "text": "o!"}
    assert run.text(4, 0, "Hell") == []


def test_text_after_a_gap_is_not_shown_until_a_snapshot_comes(run):
    run.text(2, 0, "Hell")
    assert run.text(3, 6, "world") == []
    [rest] = run.live(1, 4, "snapshot", text="Hello world")
    assert (rest.type, rest.payload) == ("text.delta", {"offset": 4, "text": "o world"})
    assert run.text(5, 11, "!")[0].payload == {"offset": 11, "text": "!"}


def test_a_gap_is_filled_from_the_stored_text_when_the_step_closes(run):
    run.text(2, 0, "Hell")
    run.text(3, 6, "world")
    assert run.kept("message.completed", 0, text_length=11) == []
    assert run.watch.wanted == (RUN, 0)
    seen = run.watch.supply("Hello world")
    assert [(event.type, event.payload.get("text")) for event in seen] == [
        ("snapshot", "Hello world"),
        ("message.completed", None),
    ]


def test_the_cursor_after_a_stored_text_names_no_live_position(run):
    """The stream may not contain that text yet: resuming after its last entry would duplicate it."""
    run.kept("message.completed", 0, text_length=2)
    assert run.watch.supply("Hi")[0].cursor == "2"


def test_nothing_overtakes_an_event_whose_text_is_looked_up(run):
    run.kept("tool.requested", 0, execution_id="7", text_length=2)
    assert run.kept("tool.completed", 0, execution_id="7") == []
    assert types(run.watch.supply("Hi")) == ["snapshot", "tool.requested", "tool.completed"]


def test_a_text_that_is_stored_nowhere_does_not_stop_the_rest(run):
    run.kept("tool.requested", 0, execution_id="7", text_length=2)
    assert types(run.watch.supply(None)) == ["tool.requested"]


def test_text_of_a_closed_step_is_dropped(run):
    run.text(2, 0, "Hi")
    run.kept("tool.requested", 0, execution_id="7", text_length=2)
    assert run.text(3, 2, "!") == []
    assert run.live(1, 4, "message.reset", 0, reason="retry") == []


def test_several_calls_of_one_step_close_it_once(run):
    run.text(2, 0, "Hi")
    run.kept("tool.requested", 0, execution_id="7", text_length=2)
    assert types(run.kept("tool.requested", 0, execution_id="8", text_length=2)) == ["tool.requested"]


def test_a_reset_empties_the_step(run):
    run.text(2, 0, "Hi")
    assert types(run.live(1, 3, "message.reset", 0, reason="retry")) == ["message.reset"]
    assert run.text(4, 0, "Ho")[0].payload == {"offset": 0, "text": "Ho"}


def test_entries_that_come_again_add_nothing(run):
    run.text(2, 0, "Hi")
    run.live(1, 3, "message.reset", 0, reason="retry")
    assert run.text(2, 0, "Hi") == []


def test_a_reset_of_nothing_is_not_shown(run):
    assert run.live(1, 2, "message.reset", 0, reason="retry") == []


def test_a_newer_claim_without_a_reset_voids_the_open_text(run):
    run.text(2, 0, "Hi")
    assert run.live(2, 1, "run.claimed", None, fence=2) == []
    seen = run.text(2, 0, "Ho", claim=2)
    assert [(event.type, event.cursor) for event in seen] == [("message.reset", "2.2-1"), ("text.delta", "2.2-2")]


def test_the_stored_text_replaces_what_an_older_claim_wrote_even_of_the_same_length(run):
    run.text(2, 0, "Hi")
    run.live(2, 1, "run.claimed", None, fence=2)
    run.kept("message.completed", 0, text_length=2)
    assert run.watch.wanted == (RUN, 0)


def test_a_partial_text_is_taken_back_when_none_of_it_was_kept(run):
    run.text(2, 0, "Hi")
    seen = run.kept("message.completed", 0, text_length=0)
    assert [(event.type, event.payload.get("text")) for event in seen] == [
        ("snapshot", ""),
        ("message.completed", None),
    ]


def test_reasoning_is_cut_to_what_is_new(run):
    run.live(1, 2, "reasoning.delta", 0, offset=0, text="Hm")
    assert run.live(1, 3, "reasoning.delta", 0, offset=1, text="m, so")[0].payload == {"offset": 2, "text": ", so"}


def test_entries_wait_until_the_run_is_known_to_have_started():
    watching = Watching()
    assert watching.text(1, 0, "Hi") == []
    watching.kept("run.queued")
    assert types(watching.kept("run.started")) == ["run.started", "text.delta"]


def test_text_of_the_next_step_waits_for_the_results_of_this_one(run):
    assert run.text(2, 0, "So", step=1, claim=2) == []
    run.kept("tool.requested", 0, execution_id="7", text_length=0)
    run.kept("tool.requested", 0, execution_id="8", text_length=0)
    assert types(run.kept("tool.completed", 0, execution_id="7")) == ["tool.completed"]
    assert types(run.kept("tool.failed", 0, execution_id="8")) == ["tool.failed", "text.delta"]


def test_what_waits_is_shown_once_the_timeline_was_read_to_its_end(run):
    run.text(2, 0, "So", step=1, claim=2)
    assert types(run.read_to_the_end()) == ["text.delta"]
    assert types(run.text(3, 2, "…", step=1, claim=2)) == ["text.delta"]
    assert not run.watch.needs_read


def test_a_result_that_never_comes_holds_nothing_back_for_long(run):
    run.kept("tool.requested", 0, execution_id="7", text_length=0)
    run.text(2, 0, "So", step=1, claim=2)
    assert types(run.read_to_the_end()) == ["text.delta"]
    assert types(run.text(3, 2, "…", step=1, claim=2)) == ["text.delta"]


def test_a_read_begun_before_an_entry_came_does_not_release_it(run):
    run.text(2, 0, "So", step=1, claim=2)
    run.watch.await_read(2)
    run.text(2, 0, "And", step=2, claim=3)
    assert run.watch.feed([CaughtUp(1)]) == []
    assert types(run.watch.feed([CaughtUp(2)])) == ["text.delta"]
    assert run.watch.needs_read


def test_a_tool_that_starts_is_shown_after_it_was_asked_for(run):
    started = PassingEvent("tool.started", RUN, {"execution_id": "7", "tool": "echo"})
    assert run.watch.feed([started]) == []
    seen = run.kept("tool.requested", 0, execution_id="7", text_length=0)
    assert types(seen) == ["tool.requested", "tool.started"]


def test_a_tool_that_starts_is_not_shown_after_it_ended(run):
    started = PassingEvent("tool.started", RUN, {"execution_id": "7", "tool": "echo"})
    run.kept("tool.requested", 0, execution_id="7", text_length=0)
    run.kept("tool.completed", 0, execution_id="7")
    assert run.watch.feed([started]) == []
    assert types(run.kept("run.completed")) == ["run.completed"]
    assert run.watch.feed([started]) == []


def test_passing_events_of_no_tool_are_shown_at_once(run):
    assert types(run.watch.feed([PassingEvent("typing", None, {})])) == ["typing"]


def test_entries_of_an_ended_run_are_dropped(run):
    run.kept("run.cancelled")
    assert run.text(2, 0, "Hi") == []
    assert not run.watch.needs_read
    assert run.watch.open_runs == set()


def test_the_end_of_the_run_takes_its_position_out_of_the_cursor(run):
    run.text(2, 0, "Hi")
    assert run.kept("run.completed")[0].cursor == "3.0-0"


def test_an_answer_that_is_stored_after_the_end_comes_whole(run):
    run.text(2, 0, "Hi")
    run.kept("run.completed")
    assert types(run.kept("message.completed", 0, text_length=2)) == ["message.completed"]


def test_a_viewer_of_children_sees_their_runs_which_do_not_move_the_cursor(run):
    run.watch._shows_children = True
    run.seq += 1
    started = KeptEvent(SESSION, run.seq, 1, "run.started", CHILD, RUN, "w", None, "system", {})
    run.watch.feed([replace(started, type="run.queued"), replace(started, seq=run.seq + 1)])
    assert run.live(1, 9, "text.delta", 0, CHILD, offset=0, text="Hi")[0].cursor == "4.1-1"
    assert (run.watch.open_runs, run.watch.open_children) == ({RUN}, {CHILD})


def test_a_child_that_was_open_at_the_cursor_is_shown_from_its_open_step_on(run):
    run.watch._shows_children = True
    started = KeptEvent(SESSION, 1, 1, "run.started", CHILD, RUN, "w", None, "system", {})
    closed = replace(started, seq=2, type="step.completed", step=0, payload={"text_length": 2})
    run.watch.restore_child(CHILD, [started, closed])
    assert run.live(1, 2, "text.delta", 0, CHILD, offset=0, text="Hi") == []
    [event] = run.live(1, 3, "text.delta", 1, CHILD, offset=0, text="So")
    assert (event.type, event.run_id, event.step, event.cursor) == ("snapshot", CHILD, 1, "2.1-1")


def test_of_a_child_run_only_its_workstream_and_what_it_asks_are_shown(run):
    event = KeptEvent(SESSION, run.seq, 1, "", CHILD, RUN, "w", 0, "system", {"execution_id": "e", "text_length": 2})
    kinds = ["run.queued", "workstream.launched", "run.started", "tool.requested", "approval.requested"]
    kinds += ["step.completed", "workstream.ended", "run.completed"]
    events = [replace(event, seq=run.seq + 1 + place, type=kind) for place, kind in enumerate(kinds)]
    seen = run.watch.feed(events)
    assert types(seen) == ["workstream.launched", "approval.requested", "workstream.ended"]
    assert [each.run_id for each in seen] == [RUN, RUN, RUN]
    assert run.watch.seq == events[-1].seq and run.watch.wanted is None
    assert run.live(1, 9, "text.delta", 0, CHILD, offset=0, text="Hi") == []


def test_a_kept_event_that_comes_twice_is_shown_once(run):
    event = KeptEvent(SESSION, 3, 3, "run.waiting", RUN, None, "", None, "system", {})
    assert types(run.watch.feed([event, event])) == ["run.waiting"]


def test_a_request_of_a_child_leaves_the_root_run_open() -> None:
    stream = SessionStream(SESSION, 0)
    types = [("run.queued", RUN, None), ("run.started", RUN, None), ("approval.requested", CHILD, RUN)]
    for seq, (type_, run_id, parent) in enumerate(types, start=1):
        stream.feed([KeptEvent(SESSION, seq, seq, type_, run_id, parent, "", None, "system", {})])
    assert stream.open_runs == {RUN}, "a viewer that joins now follows its text"
    assert stream.open_children == set()
