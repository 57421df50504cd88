"""The result of an agent: export, import, checksums, and conversion of a run."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_app.robots.messages import Role, StopReason, TextMessage, ToolCallMessage, ToolMessage, ToolResultMessage
from agents_app.robots.results import RobotResult, reply_text, result_of
from agents_app.types import RunStatus, RunTranscript, RunView, StepView, Usage
from tests.unit.agents_app.robots.strategies import JSON, MESSAGES, TEXT
from tools_app.types import ExecutionStatus, ExecutionView

NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
RESULTS = st.builds(
    RobotResult,
    TEXT,
    st.lists(MESSAGES, max_size=3).map(tuple),
    st.lists(MESSAGES, max_size=2).map(tuple),
    st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - bounds
    prompt=st.none() | TEXT,
    history=st.none() | st.lists(JSON, max_size=2),
    raw=JSON,
    stop_reason=st.none() | TEXT,
    duration=st.none() | st.floats(0, 1e6),
    input_tokens=st.none() | st.integers(0),
    delegated_by=st.none() | TEXT,
)
EXPORTED = {
    "robot_name",
    "output",
    "tool_calls",
    "created_at",
    "id",
    "checksum",
    "stop_reason",
    "duration",
    "input_tokens",
    "output_tokens",
}


@given(RESULTS)
def test_a_result_comes_back_from_its_dictionary(result: RobotResult) -> None:
    assert RobotResult.from_dict(result.to_dict()) == result


@given(RESULTS)
def test_an_export_drops_what_serves_finding_faults(result: RobotResult) -> None:
    assert set(result.export()) <= EXPORTED
    assert set(result.to_dict()) - set(result.export()) <= {"prompt", "history", "raw", "delegated_by"}
    dropped = replace(result, prompt=None, history=None, raw=None, delegated_by=None)
    assert RobotResult.from_dict(json.loads(result.to_json())) == dropped


@given(RESULTS)
def test_the_checksum_covers_output_calls_and_second_alone(result: RobotResult) -> None:
    covered = {
        "output": [message.to_dict() for message in result.output],
        "tool_calls": [message.to_dict() for message in result.tool_calls],
        "created_at": int(result.created_at.timestamp()),
    }
    text = json.dumps(covered, ensure_ascii=False, separators=(",", ":"))
    assert result.checksum == hashlib.sha256(text.encode(errors="replace")).hexdigest()
    other = replace(result, robot_name="x", id="y", raw=1, stop_reason="z", duration=1.0)
    assert other.checksum == result.checksum == RobotResult.from_dict(result.export()).checksum


def test_equal_answers_have_one_digest_and_another_checksum_each_second() -> None:
    first = RobotResult("a", (TextMessage(Role.ASSISTANT, "x"),), created_at=NOW)
    second = replace(first, created_at=NOW + timedelta(seconds=1), id="other")
    assert first.digest == second.digest and first.checksum != second.checksum


def test_loading_does_not_check_the_checksum() -> None:
    assert RobotResult.from_dict({**RobotResult("a").export(), "checksum": "wrong"}).robot_name == "a"


def test_the_reply_is_the_last_text_of_the_output() -> None:
    call = ToolCallMessage(Role.ASSISTANT, (ToolMessage("1", "echo"),))
    texts = (TextMessage(Role.ASSISTANT, "one"), TextMessage(Role.ASSISTANT, "two"), call)
    assert RobotResult("a", texts).reply == RobotResult("a", texts).last_text_content == "two"
    assert RobotResult("a", (call,)).reply is None


@pytest.mark.parametrize(("reason", "stopped"), [("end_turn", True), ("stop", True), ("length", False), (None, False)])
def test_it_is_stopped_by_the_providers_reason_or_its_last_message(reason: str | None, stopped: bool) -> None:
    assert RobotResult("a", stop_reason=reason).is_stopped is stopped
    assert RobotResult("a", (TextMessage(Role.ASSISTANT, "x", StopReason.STOP),), stop_reason=reason).is_stopped


ASSISTANT, USER = TextMessage(Role.ASSISTANT, "earlier"), TextMessage(Role.USER, "go on")


@pytest.mark.parametrize(
    ("content", "thinking", "history", "text"),
    [
        ("said", "thought", [ASSISTANT], "said"),
        (" ", "thought", [ASSISTANT], "thought"),
        ("", "", [USER, ASSISTANT, TextMessage(Role.ASSISTANT, "")], "earlier"),
        ("", "", [ASSISTANT, USER], ""),
        ("", "", [], ""),
    ],
)
def test_a_reply_falls_back_to_thinking_and_then_to_text_since_the_user_turn(
    content: str, thinking: str, history: list[Any], text: str
) -> None:
    assert reply_text(content, thinking, history) == text


def test_a_run_becomes_a_result_with_every_call_it_made() -> None:
    run = RunView(
        UUID(int=1),
        UUID(int=2),
        "default",
        0,
        RunStatus.COMPLETED,
        None,
        1,
        0,
        "",
        "",
        None,
        "",
        "user:1",
        Usage(9, 9),
        NOW,
        NOW,
        NOW + timedelta(seconds=2),
    )
    execution = ExecutionView(
        UUID(int=3),
        run.id,
        UUID(int=2),
        "default",
        0,
        0,
        "call_1",
        "echo",
        {"text": "x"},
        ExecutionStatus.COMPLETED,
        '{"text": "x"}',
        None,
        10,
        NOW,
        NOW,
        NOW,
        receipt="kr1.x",
    )
    steps = (StepView(0, "Let me see.", (), "tool_calls"), StepView(1, "Done.", (), "stop", usage=Usage(5, 3)))
    result = result_of(RunTranscript(run, steps, (execution,), "Done."))
    assert (result.robot_name, result.id, result.reply, result.is_stopped) == ("default", str(run.id), "Done.", True)
    assert result.tool_calls == (
        ToolResultMessage(ToolMessage("call_1", "echo", {"text": "x"}), {"data": {"text": "x"}}),
    )
    assert (result.duration, result.input_tokens, result.output_tokens) == (2.0, 5, 3)
