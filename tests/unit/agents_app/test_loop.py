"""`next_step` as a table: what is recorded → what happens next."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from agents_app.runs.next_step import Act, Answer, Cancel, Fail, Think, WaitForTools, next_step
from agents_app.types import Limits, Snapshot, StepView
from tools_app.types import ExecutionStatus, ExecutionView, ToolCall

CALL = ToolCall("call_1", "echo", '{"text": "hi"}')
OTHER = ToolCall("call_2", "echo", '{"text": "ho"}')
EMPTY = Snapshot(("hi",), (), (), Limits())


def said(text: str, *calls: ToolCall, index: int = 0, finish: str = "stop") -> StepView:
    return StepView(index, text, calls, "tool_calls" if calls else finish)


def ran(call: ToolCall, status: ExecutionStatus, *, step: int = 0, index: int = 0) -> ExecutionView:
    return ExecutionView(
        id=UUID(int=index),
        run_id=UUID(int=1),
        session_id=UUID(int=2),
        agent_id="default",
        step=step,
        call_index=index,
        call_id=call.id,
        tool=call.name,
        arguments={},
        status=status,
        output="{}",
        error=None,
        timeout_seconds=60,
        created_at=datetime.now(UTC),
        started_at=None,
        completed_at=None,
    )


DONE, RUNNING, FAILED = ExecutionStatus.COMPLETED, ExecutionStatus.RUNNING, ExecutionStatus.FAILED

TABLE = [
    ("nothing yet: think", EMPTY, Think(0)),
    ("text only: answer", replace(EMPTY, steps=(said("Hello"),)), Answer("Hello")),
    ("cut by the model's limit", replace(EMPTY, steps=(said("Hel", finish="length"),)), Answer("Hel", "length")),
    ("calls not planned: act", replace(EMPTY, steps=(said("", CALL),)), Act(0, (CALL,))),
    (
        "a call open: wait",
        replace(EMPTY, steps=(said("", CALL, OTHER),), executions=(ran(CALL, DONE), ran(OTHER, RUNNING, index=1))),
        WaitForTools(),
    ),
    ("results in: think", replace(EMPTY, steps=(said("", CALL),), executions=(ran(CALL, DONE),)), Think(1)),
    (
        "a failed tool goes back to the model",
        replace(EMPTY, steps=(said("", CALL),), executions=(ran(CALL, FAILED),)),
        Think(1),
    ),
    ("cancel beats everything", replace(EMPTY, steps=(said("Hello"),), cancel_requested=True), Cancel()),
]


@pytest.mark.parametrize(("snapshot", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_next_step(snapshot: Snapshot, expected: object) -> None:
    assert next_step(snapshot) == expected


def rounds(count: int) -> Snapshot:
    steps = tuple(said("", CALL, index=index) for index in range(count))
    return replace(EMPTY, steps=steps, executions=tuple(ran(CALL, DONE, step=index) for index in range(count)))


def test_after_the_last_round_the_model_must_answer_without_tools() -> None:
    assert next_step(rounds(9)) == Think(9, may_call_tools=True)
    assert next_step(rounds(10)) == Think(10, may_call_tools=False)


def test_a_model_that_still_calls_tools_fails_with_a_readable_reason() -> None:
    looping = rounds(11)
    step = next_step(replace(looping, executions=looping.executions[:10]))
    assert isinstance(step, Fail)
    assert step.code == "tool_rounds_exceeded"
    assert "10 times" in step.message


def test_used_up_time_ends_the_run_as_timed_out() -> None:
    step = next_step(replace(EMPTY, active_seconds=120.0))
    assert isinstance(step, Fail)
    assert (step.code, step.timed_out) == ("time_limit", True)


def test_used_up_time_does_not_throw_an_answer_away() -> None:
    assert next_step(replace(EMPTY, steps=(said("Hello"),), active_seconds=500.0)) == Answer("Hello")


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_answer_is_an_error(text: str) -> None:
    step = next_step(replace(EMPTY, steps=(said(text),)))
    assert isinstance(step, Fail)
    assert step.code == "empty_answer"
