"""Turns and tool cards from stored turns, from a run's record and from events; and their labels."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils.safestring import mark_safe

from agents_app.types import RunStatus, RunTranscript, RunView, StepView, Usage, WaitingOn
from sessions_app.models import Turn
from sessions_app.surfaces.chat import labels
from sessions_app.surfaces.chat.collapse import pretty
from sessions_app.surfaces.chat.tool_cards import ToolCard, ended_state, requested_card, tool_card_of
from sessions_app.surfaces.chat.turn_views import (
    TextPart,
    TurnView,
    open_turn_view,
    retry_status,
    status_of,
    stored_turn_view,
    waiting_status,
)
from tools_app.types import ExecutionStatus, ExecutionView

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
RUN, CALL = uuid4(), uuid4()


def _turn(role: str, content: str = "", **fields: Any) -> Turn:
    return Turn(role=role, content=content, run_id=RUN, ordinal=3, created_at=NOW, **fields)


def _execution(status: ExecutionStatus = ExecutionStatus.COMPLETED, **fields: Any) -> ExecutionView:
    values = {
        "id": CALL,
        "run_id": RUN,
        "session_id": uuid4(),
        "agent_id": "default",
        "step": 0,
        "call_index": 0,
        "call_id": "c",
        "tool": "echo",
        "arguments": {"text": "a"},
        "status": status,
        "output": '{"text":"a"}',
        "error": None,
        "timeout_seconds": 5,
        "created_at": NOW,
        "started_at": NOW,
        "completed_at": NOW,
        "duration_seconds": 0.4,
    }
    return ExecutionView(**{**values, **fields})


def _run(status: RunStatus, waiting_on: WaitingOn | None = None, **fields: Any) -> RunView:
    values = {
        "id": RUN,
        "conversation_id": uuid4(),
        "agent_id": "default",
        "ordinal": 3,
        "status": status,
        "waiting_on": waiting_on,
        "fence": 1,
        "crashes": 0,
        "error_code": "",
        "error_message": "",
        "retry_at": None,
        "request_id": "",
        "actor": "user:1",
        "usage": Usage(),
        "created_at": NOW,
        "started_at": None,
        "ended_at": None,
    }
    return RunView(**{**values, **fields})


def _shape(turn_view: TurnView) -> list[str]:
    return [part.source if isinstance(part, TextPart) else part.tool for part in turn_view.parts]


def _stored(*turns: Turn) -> TurnView:
    return stored_turn_view(turns, {str(CALL): _execution()}, lambda turn: mark_safe(turn.content))


def test_a_queued_run_says_that_it_waits_for_a_place() -> None:
    text = "Waiting for a place: at most 30 of your runs run at once"
    status = status_of(_run(RunStatus.QUEUED, WaitingOn.PLACE), place=2)
    assert (status.text, status.is_queued) == (text, True)
    seen = waiting_status({"waiting_on": "place", "reason": text, "until": None})
    assert (seen.text, seen.is_queued) == (text, True)


def test_a_stored_turn_keeps_the_order_of_texts_and_calls() -> None:
    turn_view = _stored(
        _turn("user", "question"),
        _turn("assistant", "let me see", tool_calls=[{}], tool_call_ids=[str(CALL)]),
        _turn("tool", "result", tool_call_ids=[str(CALL)]),
        _turn("assistant", "so it is", is_answer=True, tool_call_ids=[str(CALL)]),
    )
    assert turn_view.question == "question"
    assert _shape(turn_view) == ["let me see", "echo", "so it is"]
    assert [part.step for part in turn_view.parts] == [0, 0, 1]
    assert turn_view.source == "let me see\n\nso it is"
    assert not turn_view.is_open and not turn_view.can_retry


@pytest.mark.parametrize(
    ("state", "code", "expected"),
    [
        ("partial", "cancelled", ("", True, True)),
        ("error", "model_auth", ("why", False, True)),
        ("partial", "tool_rounds", ("why", False, False)),
    ],
)
def test_an_incomplete_answer(state: str, code: str, expected: tuple[str, bool, bool]) -> None:
    answer = _turn("assistant", "so", is_answer=True, state=state, error_code=code, error_message="why")
    turn_view = _stored(_turn("user", "q"), answer)
    assert (turn_view.problem, turn_view.is_stopped, turn_view.can_retry) == expected


def test_an_answer_that_reached_its_length_limit_can_be_continued() -> None:
    answer = _turn("assistant", "so", is_answer=True, state="partial", error_code="length", error_message="")
    turn_view = _stored(_turn("user", "q"), answer)
    assert (turn_view.problem, turn_view.can_continue) == ("The answer reached its length limit.", True)
    assert not turn_view.can_retry and not _stored(_turn("user", "q")).can_continue


def test_a_retry_has_no_question_and_a_turn_without_a_run_has_a_key() -> None:
    answer = _turn("assistant", "again", is_answer=True)
    answer.run_id = None
    turn_view = _stored(answer)
    assert (turn_view.question, turn_view.key) == ("", "place-3")


def test_an_open_turn_shows_what_is_recorded() -> None:
    steps = (StepView(0, "let me see", (), "tool_calls"),)
    run = _run(RunStatus.WAITING, WaitingOn.TOOLS)
    transcript = RunTranscript(run, steps, (_execution(ExecutionStatus.RUNNING),), "")
    turn_view = open_turn_view(run, [_turn("user", "q")], transcript, mark_safe)
    assert _shape(turn_view) == ["let me see", "echo"]
    assert turn_view.is_open and turn_view.status and turn_view.status.text == "Using echo…"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (_run(RunStatus.QUEUED), "Queued, 2nd in line"),
        (_run(RunStatus.RUNNING), "Thinking…"),
        (_run(RunStatus.WAITING, WaitingOn.RETRY, retry_at=NOW), "The model did not answer. Trying again"),
        (_run(RunStatus.WAITING, WaitingOn.APPROVAL), "Waiting for an approval"),
    ],
)
def test_the_status_of_an_open_run(run: RunView, expected: str) -> None:
    assert status_of(run, place=2).text == expected


def test_a_card_is_the_same_from_events_and_from_the_record() -> None:
    payload: Any = {"execution_id": str(CALL), "tool": "echo", "arguments": {"text": "a"}}
    requested = requested_card(0, payload)
    state, result = ended_state(
        {"execution_id": str(CALL), "status": "Completed", "output": '{"text":"a"}', "duration_ms": 400}
    )
    card = tool_card_of(_execution())
    assert card == ToolCard(CALL, 0, "echo", requested.arguments, state, result)
    assert (card.brief, card.arguments_text) == (requested.brief, requested.arguments_text) and card.brief == "a"


@pytest.mark.parametrize("status", list(ExecutionStatus))
def test_every_state_of_a_call_has_a_label(status: ExecutionStatus) -> None:
    assert tool_card_of(_execution(status)).state.label


def test_secrets_in_arguments_and_results_are_masked() -> None:
    call = tool_card_of(
        _execution(arguments={"password": "hunter2"}, output='{"token":"abc","text":"sk-0123456789abcdef0123"}')
    )
    shown = call.arguments_text.head + call.brief + (call.result.output.head if call.result else "")
    assert not any(secret in shown for secret in ("hunter2", "abc", "sk-0123"))


def test_long_values_are_folded_and_cut() -> None:
    many = pretty({"lines": list(range(300))})
    assert many.head.count("\n") == 11 and many.lines_more == 292
    assert pretty("x" * 9000).rest.endswith("…")
    assert len(pretty("x" * 9000).head + pretty("x" * 9000).rest) == 4000
    assert pretty("[" * 100_000).head.startswith("[[")


@pytest.mark.parametrize(
    ("number", "expected"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st")]
)
def test_ordinals(number: int, expected: str) -> None:
    assert labels.ordinal(number) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, ""), (0.0001, "1 ms"), (0.042, "42 ms"), (0.4, "0.4 s"), (9.96, "10 s"), (185, "3 min 5 s")],
)
def test_durations(seconds: float | None, expected: str) -> None:
    assert labels.duration(seconds) == expected


@pytest.mark.parametrize(
    ("days", "heading"),
    [
        (-1, "Today"),
        (0, "Today"),
        (1, "Yesterday"),
        (6, "Last 7 days"),
        (29, "Last 30 days"),
        (60, "March"),
        (200, "2025"),
    ],
)
def test_days(days: int, heading: str) -> None:
    assert labels.day_name(NOW - timedelta(days=days), date(2026, 5, 4)) == heading


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        (timedelta(seconds=5), "now"),
        (timedelta(minutes=5), "5 min"),
        (timedelta(hours=3), "3 h"),
        (timedelta(days=2), "2 d"),
        (timedelta(days=10), "24 Apr"),
        (timedelta(days=200), "16 Oct 2025"),
    ],
)
def test_times(passed: timedelta, expected: str) -> None:
    assert labels.time_ago(NOW - passed, NOW) == expected


@pytest.mark.parametrize(
    ("reason", "text", "detail"),
    [
        (
            "m.example is busy: too many requests. Try again later.",
            "m.example is busy: too many requests. Trying again",
            "",
        ),
        (
            "m.example failed (500). Try again; it may help. It said: no",
            "m.example failed (500). Trying again",
            "It said: no",
        ),
        ("Lost", "Lost. Trying again", ""),
    ],
)
def test_a_retry_says_what_happened_and_not_what_the_reader_could_do(reason: str, text: str, detail: str) -> None:
    status = retry_status(reason, NOW)
    assert (status.text, status.detail, status.until) == (text, detail, NOW)
