"""A run as the events of a thread's stream: complete, and resumed behind any event."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.threads.event_ids import LAST_STEP, EventPosition, parse_position
from sessions_app.surfaces.threads.event_schemas import KINDS
from sessions_app.surfaces.threads.projection import ENDS, MessageEvents, ThreadEvent, lines_of

RUN, SESSION, CALL = UUID(int=1), UUID(int=2), str(UUID(int=3))
NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
STRICT = {kind.name: Draft202012Validator({**kind.schema(), "additionalProperties": False}) for kind in KINDS}
USAGE = {"input_tokens": 3, "output_tokens": 4}


def session_event(kind: str, step: int | None = 0, **payload: Any) -> SessionEvent:
    return SessionEvent(kind, SESSION, RUN, step, payload, "1.1-1", 1, 1_772_357_400_000)


def deltas(text: str, cuts: Sequence[int], step: int = 0, kind: str = "text") -> list[SessionEvent]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pairs = zip(places, places[1:], strict=False)
    return [session_event(f"{kind}.delta", step, offset=start, text=text[start:end]) for start, end in pairs]


def started() -> SessionEvent:
    return session_event("run.started", None, fence=1, agent_id="default")


def ended(kind: str = "run.completed", code: str = "", message: str = "") -> SessionEvent:
    return session_event(kind, None, code=code, message=message, usage=USAGE)


def called(step: int, text: str) -> list[SessionEvent]:
    names = {"execution_id": CALL, "call_id": "call_1", "tool": "echo"}
    return [
        session_event("tool.requested", step, **names, call_index=0, arguments={"text": "x"}, text_length=len(text)),
        session_event("tool.completed", step, **names, status="Completed", output='{"text":"x"}', duration_ms=12),
    ]


def whole_run(text: str, cuts: Sequence[int]) -> list[SessionEvent]:
    return [
        started(),
        *deltas("Hm, let me think.", cuts, 0, "reasoning"),
        *deltas("Let me see.", cuts),
        *called(0, "Let me see."),
        *deltas(text, cuts, 1),
        session_event("message.completed", 1, turn_id="t", state="complete", text_length=len(text)),
        ended(),
    ]


def sent(run_events: Sequence[SessionEvent], after: str = "") -> list[ThreadEvent]:
    message = MessageEvents(RUN, 1, lambda: NOW, parse_position(after))
    events: list[ThreadEvent] = []
    for each in run_events:
        events += message.end(each) if each.type in ENDS else message.see(each)
    for event in events:
        STRICT[event.name].validate(event.data)
    return events


def shown(events: Sequence[ThreadEvent]) -> dict[str, str]:
    """Return the text of each part, as a client shows it."""
    parts: dict[str, str] = {}
    for event in events:
        if event.name.endswith("_start") and "part_id" in event.data:
            parts[event.data["part_id"]] = ""
        elif event.name.endswith("_delta"):
            parts[event.data["part_id"]] += event.data["delta"]
    return parts


def structure(events: Sequence[ThreadEvent]) -> list[str]:
    return [event.name for event in events if not event.name.endswith("_delta")]


CUTS = st.lists(st.integers(0, 30), max_size=4)


@given(st.text(min_size=1, max_size=30), CUTS, CUTS, st.integers(0, 60))
def test_a_message_can_be_resumed_behind_any_event_however_its_text_is_cut(
    text: str, cuts: list[int], other_cuts: list[int], place: int
) -> None:
    events = sent(whole_run(text, cuts))
    seen = events[: 1 + place % len(events)]
    rest = sent(whole_run(text, other_cuts), after=seen[-1].entry_id)
    assert shown([*seen, *rest]) == shown(events)
    assert structure([*seen, *rest]) == structure(events)


@given(st.text(max_size=20), st.text(max_size=20), CUTS, CUTS, st.integers(0, 60))
def test_after_a_crash_the_client_has_the_second_text_wherever_it_resumes(
    first: str, second: str, cuts: list[int], other_cuts: list[int], place: int
) -> None:
    beginning = [started(), *deltas(first, cuts)]
    end = [session_event("message.completed", 0, turn_id="t", state="complete", text_length=len(second)), ended()]
    whole = [*beginning, session_event("message.reset", reason="crash"), *deltas(second, other_cuts), *end]
    final = "".join(shown(sent(whole)).values())
    assert final == second
    seen = sent(beginning)
    seen = seen[: 1 + place % len(seen)]
    for later in (whole, [started(), session_event("snapshot", text=second), *end]):
        rest = sent(later, after=seen[-1].entry_id)
        assert "".join(shown([*seen, *rest]).values()) == second


def test_text_that_is_repeated_after_a_crash_is_sent_once() -> None:
    run_events = [
        started(),
        *deltas("Hello wor", []),
        session_event("message.reset", reason="crash"),
        *deltas("Hello world", [3]),
    ]
    assert [event.data["delta"] for event in sent(run_events) if event.name == "text_delta"] == ["Hello wor", "ld"]


def test_a_part_restarts_as_soon_as_its_text_differs_after_a_crash() -> None:
    run_events = [
        started(),
        *deltas("Hello world", []),
        session_event("message.reset", reason="crash"),
        *deltas("Hey", [1, 2]),
    ]
    last = [event for event in sent(run_events) if event.name.startswith("text")][-2:]
    assert last[0].data["restarted"] is True and last[1].data["delta"] == "Hey"


def test_entry_ids_rise_and_look_like_those_of_redis() -> None:
    places = [parse_position(event.entry_id) for event in sent(whole_run("a long text", [3, 5]))]
    assert all(places) and places == sorted(places, key=lambda place: place or EventPosition(0))
    assert parse_position(str(EventPosition(7, 3, 3, 1234, 99))) == EventPosition(7, 3, 3, 1234, 99)


@pytest.mark.parametrize("odd", ["", "0", "0-0", "7", "a-b", "1-99999999999999999999", "1706000000000-5-5", "$", "٣-١"])
def test_invalid_entry_ids_have_no_position(odd: str) -> None:
    assert parse_position(odd) is None


def test_an_error_is_sent_before_the_end() -> None:
    events = sent([started(), *deltas("Half", []), ended("run.failed", "model_error", "The model broke.")])
    assert [event.name for event in events[-2:]] == ["error", "message_end"]
    assert events[-2].data["error"] == "The model broke." and events[-1].data["status"] == "failed"


def test_a_run_that_is_stopped_before_it_starts_is_a_complete_message() -> None:
    events = sent([ended("run.cancelled", "cancelled", "Stopped.")])
    assert [event.name for event in events] == ["message_start", "message_end"]
    assert parse_position(events[-1].entry_id) == EventPosition(1, LAST_STEP, 6, 2)


def test_a_question_is_a_text_of_the_message_which_then_pauses() -> None:
    names = {"execution_id": CALL, "call_id": "call_1", "tool": "ask_user"}
    requested = session_event("tool.requested", **names, call_index=0, arguments={}, text_length=0)
    asked = session_event("input.requested", **names, request_id=str(UUID(int=4)), question="Which one?")
    message = MessageEvents(RUN, 1, lambda: NOW)
    events = [event for each in (started(), requested, asked) for event in message.see(each)]
    pause = message.pause()
    assert shown(events) == {events[-1].data["part_id"]: "Which one?"}
    assert [event.data["status"] for event in pause] == ["waiting"]
    resumed = MessageEvents(RUN, 1, lambda: NOW, parse_position(pause[0].entry_id))
    assert [event for each in (started(), requested, asked) for event in resumed.see(each)] == []
    assert resumed.pause() == []


def test_a_step_has_its_approval_until_that_is_decided() -> None:
    names = {"execution_id": CALL, "call_id": "call_1", "tool": "write_artifact"}
    approval = {
        "approval_id": str(UUID(int=5)),
        "choices": ["allow_once", "allow_always", "deny"],
        "reason": "r",
        "expires_at": "2026-03-01T09:30:00Z",
    }
    run_events = [
        session_event("tool.requested", **names, call_index=0, arguments={}, text_length=0),
        session_event("approval.requested", **names, **approval),
        session_event("approval.decided", **names, approval_id=approval["approval_id"], status="approved", note=""),
    ]
    steps = [event.data for event in sent([started(), *run_events]) if event.name == "step"]
    assert ["approval" in step for step in steps] == [False, True, False]
    assert steps[1]["approval"]["choices"] == approval["choices"]
    waiting = MessageEvents(RUN, 1, lambda: NOW, allowed_decisions=())
    [asked] = [event for each in (started(), *run_events[:2]) for event in waiting.see(each)][-1:]
    assert asked.data["approval"] == {**approval, "choices": []}


def test_events_are_sent_with_entry_id_name_and_data() -> None:
    [event] = sent([started()])
    assert lines_of([event]).splitlines()[:2] == [f"id: {event.entry_id}", "event: message_start"]
    assert lines_of([ThreadEvent("thread_title", {"title": "ü"})]) == 'event: thread_title\ndata: {"title":"ü"}\n\n'


def asked_by_child(kind: str = "approval.requested", **payload: Any) -> SessionEvent:
    names = {"execution_id": str(UUID(int=9)), "call_id": "c", "tool": "send_mail", "approval_id": str(UUID(int=8))}
    event = session_event(kind, 7, **names, **payload)
    return replace(event, parent_run_id=RUN, workstream="deep")


def test_an_approval_of_a_workstream_is_a_step_until_it_is_decided() -> None:
    requested = asked_by_child(
        arguments={"to": "x"},
        reason="Asked by the workstream deep.",
        expires_at="2026-03-01T10:00:00Z",
        choices=["allow_once", "deny"],
    )
    decided = asked_by_child("approval.decided", status="approved", note="")
    run_events = [started(), *called(2, ""), requested, decided, *deltas("Done.", [], 3), ended()]
    events = sent(run_events)
    shown = [event.data for event in events if event.name == "step" and event.data["name"] == "send_mail"]
    assert [step["status"] for step in shown] == ["running", "success"]
    assert shown[0]["approval"]["approval_id"] == str(UUID(int=8)) and "deep" in shown[0]["detail"]
    assert "approval" not in shown[1]
    positions = [position for event in events if (position := parse_position(event.entry_id))]
    assert positions == sorted(positions) and len(positions) == len(events)
    after = shown[0]["seq"]
    assert sent(run_events, after)[0].data["detail"] == "Approval approved."
