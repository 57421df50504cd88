"""A table of `next_step`: recorded state → decision."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from agents_app.runs.next_step import (
    CANCELLED,
    DEADLINE,
    TERMINATED,
    Act,
    End,
    Think,
    Transcribe,
    WaitForChildren,
    WaitForParent,
    WaitForTools,
    next_step,
)
from agents_app.types import Limits, Message, RunStatus, Snapshot, StepView
from agents_app.types.child_runs import WorkingChild
from agents_app.types.message_parts import MessagePart, VoiceNote, VoiceNotes
from tools_app.types import ExecutionStatus, ExecutionView, ToolCall

CALL = ToolCall("call_1", "echo", '{"text": "hi"}')
OTHER = ToolCall("call_2", "echo", '{"text": "ho"}')
EMPTY = Snapshot((Message("user", "hi"),), (), (), Limits())
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
REJECTED = StepView(0, "", (), "rejected", rejected_text='{"a": "one"}')


def answered(text: str, code: str = "") -> End:
    return End(RunStatus.COMPLETED, code, answer=text)


def step_view(text: str, *calls: ToolCall, index: int = 0, finish: str = "stop", turns: int = 1) -> StepView:
    return StepView(index, text, calls, "tool_calls" if calls else finish, turns_seen=turns)


def told(snapshot: Snapshot) -> Snapshot:
    """Return the state after the instruction to finish."""
    return replace(snapshot, user_turns=(*snapshot.user_turns, Message("user", "Finish now.", is_final=True)))


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

A = (WorkingChild("1", "a"),)
ON = (WorkingChild("1", "a", outlives=True),)
REPORT = Message("user", "[Workstream b completed]", is_report=True, is_result=True, about=("2", "b"))
NOTICE = Message("user", "[Workstream a] 75 % of its time is over.", is_report=True)
WAIT = ToolCall("call_1", "wait_workstreams", "{}")


def waiting(arguments: dict[str, Any] | None = None, *later: Message, working: Any = ()) -> Snapshot:
    """Return the state after a call of the wait tool. later: messages since its step."""
    execution = replace(ran(WAIT, DONE), arguments=arguments or {})
    turns = (*EMPTY.user_turns, *later)
    return replace(EMPTY, steps=(step_view("", WAIT),), executions=(execution,), user_turns=turns, working=working)


LEFT = replace(ran(CALL, ExecutionStatus.TIMED_OUT), client_until=datetime.now(UTC))

TABLE = [
    (
        "a client did not send the output of its tool: the run ends without a failure",
        replace(EMPTY, steps=(step_view("Let me see.", CALL),), executions=(LEFT,)),
        End(RunStatus.COMPLETED),
    ),
    (
        "a call that timed out here: think",
        replace(EMPTY, steps=(step_view("", CALL),), executions=(replace(LEFT, client_until=None),)),
        Think(1),
    ),
    ("no step yet: think", EMPTY, Think(0)),
    ("text only: answer", replace(EMPTY, steps=(step_view("Hello"),)), answered("Hello")),
    (
        "an answer that the model's limit cut",
        replace(EMPTY, steps=(step_view("Hel", finish="length"),)),
        answered("Hel", "length"),
    ),
    ("calls without executions: act", replace(EMPTY, steps=(step_view("", CALL),)), Act(0, (CALL,))),
    (
        "an answer while a child run works: wait for it",
        replace(EMPTY, steps=(step_view("Started."),), working=A),
        WaitForChildren(),
    ),
    (
        "an answer while one child run has a result and another works: wait for all",
        replace(EMPTY, steps=(step_view("Started."),), user_turns=(*EMPTY.user_turns, REPORT), working=A),
        WaitForChildren(),
    ),
    (
        "an answer while a child run works that outlives the run: the run ends",
        replace(EMPTY, steps=(step_view("Started."),), working=ON),
        answered("Started."),
    ),
    (
        "an answer while one of those has a result: think",
        replace(EMPTY, steps=(step_view("Started."),), user_turns=(*EMPTY.user_turns, REPORT), working=ON),
        Think(1),
    ),
    (
        "an answer while one of those and another child run work: wait",
        replace(EMPTY, steps=(step_view("Started."),), working=(*ON, *A)),
        WaitForChildren(),
    ),
    ("a call of the wait tool while one of those works: wait", waiting(working=ON), WaitForChildren()),
    (
        "an answer while a child run works and another message waits: the run ends and leaves it",
        replace(EMPTY, steps=(step_view("Started."),), working=A, has_later_message=True),
        replace(answered("Started."), unread_from=1),
    ),
    (
        "a wait for child runs while another message waits: the run ends without a text of its own",
        replace(waiting({}, REPORT, working=A), has_later_message=True),
        End(RunStatus.COMPLETED, unread_from=1),
    ),
    (
        "a message of its own comes first",
        replace(waiting({}, Message("user", "?"), working=A), has_later_message=True),
        Think(1),
    ),
    (
        "nothing to report any more: the run ends",
        replace(EMPTY, user_turns=(), reports_only=True),
        End(RunStatus.COMPLETED),
    ),
    (
        "nothing to say about reports: the run ends without an answer",
        replace(EMPTY, steps=(step_view(""),), reports_only=True),
        End(RunStatus.COMPLETED),
    ),
    (
        "a result that came during the call: think",
        replace(EMPTY, steps=(step_view("Started."),), user_turns=(*EMPTY.user_turns, REPORT)),
        Think(1),
    ),
    (
        "a message while child runs work: think",
        replace(EMPTY, steps=(step_view("Started."),), user_turns=(*EMPTY.user_turns, Message("user", "?")), working=A),
        Think(1),
    ),
    ("a call of the wait tool while a child run works: wait", waiting(working=A), WaitForChildren()),
    ("a call of the wait tool when none works: think", waiting(), Think(1)),
    ("it names another: think", waiting({"workstreams": ["b"]}, working=A), Think(1)),
    ("it names one that works: wait", waiting({"workstreams": ["a"]}, working=A), WaitForChildren()),
    ("it waits for any and one has a result: think", waiting({"until": "any"}, REPORT, working=A), Think(1)),
    (
        "it waits for any of some and another has a result: wait",
        waiting({"until": "any", "workstreams": ["a"]}, REPORT, working=A),
        WaitForChildren(),
    ),
    (
        "it waits for any of some, by launch id, and that has a result: think",
        waiting({"until": "any", "workstreams": ["1", "2"]}, REPORT, working=A),
        Think(1),
    ),
    ("it waits for any and a deadline is near: wait", waiting({"until": "any"}, NOTICE, working=A), WaitForChildren()),
    ("it waits for all and one has a result: wait", waiting({"until": "all"}, REPORT, working=A), WaitForChildren()),
    ("a message ends the wait", waiting({}, Message("user", "?"), working=A), Think(1)),
    (
        "an interactive child run that answers waits for its parent",
        replace(EMPTY, steps=(step_view("Ready."),), is_interactive=True),
        WaitForParent("Ready."),
    ),
    (
        "one that was terminated ends with what it has",
        replace(EMPTY, steps=(step_view("Half."),), is_interactive=True, is_terminating=True),
        replace(TERMINATED, answer="Half."),
    ),
    ("one that was told to finish calls no tools", told(EMPTY), Think(0, may_call_tools=False)),
    ("one that was told to end, too", replace(EMPTY, is_terminating=True), Think(0, may_call_tools=False)),
    (
        "its answer does not wait for child runs",
        replace(told(EMPTY), steps=(step_view("Half.", turns=2),), working=A),
        answered("Half."),
    ),
    (
        "nor does that of one that was terminated",
        replace(told(EMPTY), steps=(step_view("Half.", turns=2),), working=A, is_terminating=True),
        replace(TERMINATED, answer="Half."),
    ),
    (
        "an answer from before the instruction is asked for again",
        replace(told(EMPTY), steps=(step_view("Started."),), working=A),
        Think(1, may_call_tools=False),
    ),
    ("a wait for child runs ends with the instruction", told(waiting(working=A)), Think(1, may_call_tools=False)),
    (
        "calls after the instruction are refused once",
        replace(told(EMPTY), steps=(step_view("", CALL, turns=2),)),
        Act(0, (CALL,), is_refused=True),
    ),
    (
        "the second time ends the run with its text",
        replace(
            told(EMPTY),
            steps=(step_view("", CALL, turns=2), step_view("Half", OTHER, index=1, turns=2)),
            executions=(ran(CALL, FAILED),),
        ),
        replace(DEADLINE, answer="Half"),
    ),
    (
        "a later message gives an interactive one another task",
        replace(EMPTY, user_turns=(*told(EMPTY).user_turns, Message("user", "And this?")), is_interactive=True),
        Think(0),
    ),
    ("a paused child run calls no model", replace(EMPTY, is_paused=True), WaitForParent()),
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
    ("a rejected answer: think again", replace(EMPTY, steps=(REJECTED,), output_schema=SCHEMA), Think(1)),
    (
        "a user turn after a rejected answer: think, whatever the limit",
        replace(
            EMPTY,
            user_turns=(*EMPTY.user_turns, Message("user", "ho")),
            steps=(REJECTED,),
            limits=Limits(output_retries=0),
        ),
        Think(1),
    ),
    (
        "rejected as often as allowed: the run fails with the first problems",
        replace(
            EMPTY, steps=(REJECTED, replace(REJECTED, index=1)), limits=Limits(output_retries=1), output_schema=SCHEMA
        ),
        End(
            RunStatus.FAILED,
            "invalid_output",
            "The answer did not match its JSON Schema in 2 attempts: /a: must be integer, not string. Simplify the "
            "schema, ask in other words, or choose another model.",
        ),
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


def test_voice_notes_are_transcribed_before_the_model_is_called() -> None:
    notes = tuple(VoiceNote(MessagePart("audio", "audio/ogg", "", 9, str(number), "")) for number in range(2))
    heard = replace(EMPTY, voice=VoiceNotes(notes))
    assert next_step(heard) == Transcribe(notes[0])
    assert next_step(replace(heard, cancel_requested=True)) == CANCELLED
    assert next_step(replace(heard, stopped="Stopped.")) == End(RunStatus.CANCELLED, "stopped", "Stopped.")
    assert next_step(replace(heard, budget_refusal="No.")) == End(RunStatus.FAILED, "budget_exhausted", "No.")
    assert next_step(replace(heard, voice=VoiceNotes(notes[1:], failure="too long"))) == Transcribe(notes[1])


def test_a_run_of_voice_notes_that_failed_ends() -> None:
    failed = replace(EMPTY, voice=VoiceNotes(failure="too long"))
    end = next_step(failed)
    assert isinstance(end, End) and end.code == "voice_note_not_understood" and "too long" in end.message
    assert next_step(replace(failed, voice=VoiceNotes())) == Think(0)
