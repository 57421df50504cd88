"""The timeline of a run: order, offsets, bars."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from agents_app.admin import timeline
from agents_app.models import Run, Step
from audit_app.models import Event
from tools_app.models import ToolExecution

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def run(status="completed", started=1.0, ended=10.0) -> Run:
    return Run(
        id=uuid4(),
        status=status,
        created_at=START,
        started_at=None if started is None else at(started),
        ended_at=None if ended is None else at(ended),
    )


def step(index, begin, end, **fields) -> Step:
    return Step(index=index, started_at=at(begin), ended_at=at(end), finish_reason="stop", **fields)


def call(step_index, call_index, begin, end, status="Completed") -> ToolExecution:
    """Return a call that nobody had to approve, as the page loads it."""
    row = ToolExecution(
        id=uuid4(),
        step=step_index,
        call_index=call_index,
        tool="echo",
        effect="read",
        risk="low",
        status=status,
        created_at=at(begin),
        started_at=at(begin),
        completed_at=None if end is None else at(end),
    )
    ToolExecution._meta.get_field("approval").set_cached_value(row, None)
    return row


def test_bars_lie_where_things_happened():
    story = timeline.build(run(), [step(0, 1, 3)], [call(0, 0, 4, 9, "Failed")], [], now=at(99))
    assert [(bar.label, bar.left, bar.width, bar.tone) for bar in story.bars] == [
        ("Queued", 0.0, 10.0, "quiet"),
        ("Step 1 · model", 10.0, 20.0, "model"),
        ("echo", 40.0, 50.0, "danger"),
    ]
    assert story.length == "10.0 s"


def event(seconds: float, name: str, **payload: str) -> Event:
    return Event(type=name, ts=int(at(seconds).timestamp() * 1000), payload=payload)


def test_a_failed_model_call_and_the_wait_for_the_next_try_have_bars():
    events = [
        event(1, "run.started"),
        event(2, "run.waiting", waiting_on="retry", reason="busy", until=at(4).isoformat()),
        event(6, "run.failed", code="model_error", message="broken"),
    ]
    story = timeline.build(run("failed", ended=6.0), [], [], events, now=at(99))
    assert [(bar.label, bar.length, bar.tone) for bar in story.bars] == [
        ("Queued", "1.0 s", "quiet"),
        ("Model call · failed", "1.0 s", "danger"),
        ("Waits to retry", "2.0 s", "quiet"),
        ("Model call · failed", "2.0 s", "danger"),
    ]


def test_a_failure_that_is_not_the_model_s_has_no_model_call():
    events = [event(1, "run.started"), event(6, "run.failed", code="internal_error", message="broken")]
    assert len(timeline.build(run("failed", ended=6.0), [], [], events, now=at(99)).bars) == 1


def test_the_wait_for_a_person_has_a_bar_of_its_own():
    asked = call(0, 0, 3, 9)
    asked.started_at = at(8)
    story = timeline.build(run(), [step(0, 1, 3)], [asked], [], asked=[asked.id], now=at(99))
    assert [(bar.label, bar.length, bar.tone) for bar in story.bars[2:]] == [
        ("echo · waits for a person", "5.0 s", "warning"),
        ("echo", "1.0 s", "success"),
    ]
    asked.started_at = asked.completed_at = None
    story = timeline.build(run("waiting", ended=None), [step(0, 1, 3)], [asked], [], asked=[asked.id], now=at(7))
    assert [(bar.label, bar.length) for bar in story.bars[2:]] == [("echo · waits for a person", "4.0 s")]


def test_a_bar_never_leaves_the_lane_nor_disappears():
    late = timeline.build(run(), [step(0, 9.999, 30)], [call(0, 0, -5, -5)], [], now=at(99))
    for bar in late.bars:
        assert 0 <= bar.left <= 100 and bar.width > 0 and bar.left + bar.width <= 100.5


def test_what_is_going_on_now_is_a_bar_too():
    story = timeline.build(run("running", ended=None), [step(0, 1, 3)], [], [], now=at(5))
    assert (story.bars[-1].label, story.bars[-1].left, story.bars[-1].width) == ("Now running", 60.0, 40.0)


def test_a_tool_that_still_runs_fills_the_time_until_now():
    story = timeline.build(run("waiting", ended=None), [step(0, 1, 3)], [call(0, 0, 3, None, "Running")], [], now=at(8))
    assert [bar.label for bar in story.bars] == ["Queued", "Step 1 · model", "echo"]
    assert story.bars[-1].width == 62.5


def test_a_run_that_waits_in_the_queue_is_one_bar():
    story = timeline.build(run("queued", started=None, ended=None), [], [], [], now=at(4))
    assert [(bar.label, bar.width) for bar in story.bars] == [("Queued", 100.0)]


def test_calls_stand_under_their_step_and_what_was_never_tried_is_named():
    calls = [{"id": "a", "name": "echo", "arguments": "{}"}, {"id": "b", "name": "web_fetch", "arguments": "{}"}]
    executions = [call(0, 0, 3, 4), call(1, 0, 6, 7)]
    story = timeline.build(run(), [step(0, 1, 3, tool_calls=calls), step(1, 5, 6)], executions, [], now=at(99))
    assert [card.row for card in story.steps[0].calls] == executions[:1]
    assert [missing["name"] for missing in story.steps[0].unplanned] == ["web_fetch"]
    assert story.steps[1].at == "+5.0 s" and story.steps[1].length == "1.0 s"


def test_events_carry_their_offset_and_a_short_summary():
    event = Event(seq=1, ts=int(at(2.5).timestamp() * 1000), type="run.queued", payload={"ordinal": 0})
    line = timeline.build(run(), [], [], [event], now=at(99)).events[0]
    assert (line.at, line.details) == ("+2.5 s", "ordinal: 0")


def test_long_and_hostile_text_is_clipped_and_made_visible():
    story = timeline.build(run(), [step(0, 1, 2, text="\u202e" + "x" * 30_000)], [], [], now=at(99))
    assert story.steps[0].text.startswith("\\u202exxx") and "more characters" in story.steps[0].text
