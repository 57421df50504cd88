"""A table of `next_step`: recorded state → decision."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from agents_app.runs.next_step import CANCELLED, Act, End, Think, WaitForTools, next_step
from agents_app.types import Limits, RunStatus, Snapshot, StepView
from tools_app.types import ExecutionStatus, ExecutionView, ToolCall

CALL = ToolCall("call_1", "echo", '{"text": "hi"}')
OTHER = ToolCall("call_2", "echo", '{"text": "ho"}')
EMPTY = Snapshot(("hi",), (), (), Limits())


def answered(text: str, code: str = "") -> End:
    return End(RunStatus.COMPLETED, code, answer=text)


def step_view(text: str, *calls: ToolCall, index: int = 0, finish: str = "stop") -> StepView:
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
    ("no step yet: think", EMPTY, Think(0)),
    ("text only: answer", replace(EMPTY, steps=(step_view("Hello"),)), answered("Hello")),
    (
        "an answer that the model's limit cut",
        replace(EMPTY, steps=(step_view("Hel", finish="length"),)),
        answered("Hel", "length"),
    ),
    ("calls without executions: act", replace(EMPTY, steps=(step_view("", CALL),)), Act(0, (CALL,))),
    (
        "an open execution: wait",
        replace(EMPTY, steps=(step_view("", CALL, OTHER),), executions=(ran(CALL, DONE), ran(OTHER, RUNNING, index=1))),
        WaitForTools(),
    ),
    (
        "all executions ended: think",
        replace(EMPTY, steps=(step_view("", CALL),), executions=(ran(CALL, DONE),)),
        Think(1),
    ),
    (
        "a failed execution: think",
        replace(EMPTY, steps=(step_view("", CALL),), executions=(ran(CALL, FAILED),)),
        Think(1),
    ),
    (
        "a requested cancellation comes first",
        replace(EMPTY, steps=(step_view("Hello"),), cancel_requested=True),
        CANCELLED,
    ),
]


@pytest.mark.parametrize(("snapshot", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_next_step(snapshot: Snapshot, expected: object) -> None:
    assert next_step(snapshot) == expected


def rounds(count: int) -> Snapshot:
    steps = tuple(step_view("", CALL, index=index) for index in range(count))
    return replace(EMPTY, steps=steps, executions=tuple(ran(CALL, DONE, step=index) for index in range(count)))


def test_after_the_last_round_the_model_must_answer_without_tools() -> None:
    assert next_step(rounds(9)) == Think(9, may_call_tools=True)
    assert next_step(rounds(10)) == Think(10, may_call_tools=False)


def test_a_model_that_still_calls_tools_fails_with_a_readable_reason() -> None:
    looping = rounds(11)
    step = next_step(replace(looping, executions=looping.executions[:10]))
    assert isinstance(step, End)
    assert step.status is RunStatus.FAILED
    assert step.code == "tool_rounds_exceeded"
    assert "10 times" in step.message


def test_used_up_time_ends_the_run_as_timed_out() -> None:
    step = next_step(replace(EMPTY, active_seconds=120.0))
    assert isinstance(step, End)
    assert (step.code, step.status) == ("time_limit", RunStatus.TIMED_OUT)


def test_used_up_time_does_not_throw_an_answer_away() -> None:
    assert next_step(replace(EMPTY, steps=(step_view("Hello"),), active_seconds=500.0)) == answered("Hello")


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_answer_is_an_error(text: str) -> None:
    step = next_step(replace(EMPTY, steps=(step_view(text),)))
    assert isinstance(step, End)
    assert step.status is RunStatus.FAILED
    assert step.code == "empty_answer"
