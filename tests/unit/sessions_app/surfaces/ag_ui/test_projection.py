"""The events that one connection is sent of a run."""

from typing import Any
from uuid import UUID

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.ag_ui.projection import RunEvents
from sessions_app.surfaces.ag_ui.requests import read_request

SESSION, RUN, BEE = UUID(int=1), UUID(int=2), UUID(int=3)
ASK = {"execution_id": str(UUID(int=9)), "call_id": "c", "tool": "ask_user", "expires_at": "2030-01-01T00:00:00Z"}


def event(
    type_: str, step: int | None = None, run: UUID = RUN, parent: UUID | None = None, **payload: Any
) -> SessionEvent:
    return SessionEvent(
        type_, SESSION, run, step, payload, "1.0-0", parent_run_id=parent, workstream="b" if parent else ""
    )


def projection(*messages: dict[str, Any], may_decide: bool = True) -> RunEvents:
    body = {"threadId": "t", "runId": "r", "messages": [*messages]}
    return RunEvents(RUN, read_request(body), may_decide=may_decide)


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [each["delta"] for each in events if each["type"] == "TEXT_MESSAGE_CONTENT"]


def question(run: UUID = RUN, parent: UUID | None = None) -> SessionEvent:
    asked = {**ASK, "request_id": "q", "question": "Which?", "options": [], "questions": [], "allows_text": True}
    return event("input.requested", 0, run, parent, **asked)


def called(tool: str, place: int, execution: int) -> SessionEvent:
    call = {"execution_id": str(UUID(int=execution)), "call_id": "c", "tool": tool, "call_index": place}
    return event("tool.requested", 0, **call, arguments={}, risk="low", decision="", text_length=0)


def test_text_that_begins_again_replaces_what_the_client_has() -> None:
    seen = projection()
    assert texts(seen.see(event("text.delta", 0, offset=0, text="dead words"))) == ["dead words"]
    assert seen.see(event("message.reset", 0, reason="resumed")) == []
    events = seen.see(event("text.delta", 0, offset=0, text="living"))
    (snapshot,) = [each for each in events if each["type"] == "MESSAGES_SNAPSHOT"]
    assert [message["content"] for message in snapshot["messages"]] == ["living"] and not texts(events)
    assert texts(seen.see(event("text.delta", 0, offset=6, text=" on"))) == [" on"]


def test_what_the_client_has_is_not_sent_again() -> None:
    known = {"id": f"text_{RUN.hex}_0", "role": "assistant", "content": "Hello"}
    assert texts(projection(known).see(event("snapshot", 0, text="Hello there"))) == [" there"]
    call = {"id": f"call_{UUID(int=9).hex}", "type": "function", "function": {"name": "sum", "arguments": "{}"}}
    asked = {"id": "m", "role": "assistant", "toolCalls": [call]}
    types = [each["type"] for each in projection(asked).see(called("sum", 0, 9))]
    assert types == ["STEP_STARTED"]


def test_a_run_pauses_once_nothing_else_works() -> None:
    seen = projection()
    for each in (called("ask_user", 0, 9), question(), called("sum", 1, 10)):
        seen.see(each)
    assert not seen.is_paused
    ended = {"execution_id": str(UUID(int=10)), "call_id": "c", "tool": "sum", "status": "Completed", "origins": []}
    seen.see(event("tool.completed", 0, **ended, output="3", duration_ms=1))
    assert seen.is_paused
    last = seen.pause([])[-1]
    assert last["outcome"]["interrupts"][0]["id"] == "q"


def test_a_question_of_a_workstream_pauses_a_run_that_waits_for_it_again() -> None:
    """No event says that a run waits for its workstreams if it had waited for others of them before."""
    seen = projection()
    launched = {"run_id": str(BEE), "parent_run_id": str(RUN), "workstream_id": "b", "name": "Bee"}
    seen.see(event("workstream.launched", None, BEE, RUN, **launched))
    seen.see(event("run.waiting", None, waiting_on="children", reason="", until=None))
    seen.see(event("text.delta", 1, offset=0, text="One is done."))
    seen.see(question(BEE, RUN))
    assert not seen.is_paused, "the model writes"
    seen.see(event("step.completed", 1, text_length=12))
    assert seen.is_paused
    types = [each["type"] for each in seen.pause([])]
    assert types == ["SUBAGENT_FINISHED", "STEP_FINISHED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


def test_an_approval_that_the_caller_may_not_decide_is_a_call_that_works() -> None:
    asked = {**ASK, "approval_id": "a", "arguments": {}, "risk": "high", "reason": "", "choices": [], "run_pattern": ""}
    for may_decide in (True, False):
        seen = projection(may_decide=may_decide)
        seen.see(called("python", 0, 9))
        seen.see(event("approval.requested", 0, **asked, pattern="", origins=[]))
        assert seen.is_paused is may_decide


def test_live_text_of_a_workstream_is_attributed_to_it() -> None:
    seen = projection()
    launched = {"run_id": str(BEE), "parent_run_id": str(RUN), "workstream_id": "b", "name": "Bee"}
    seen.see(event("workstream.launched", None, BEE, RUN, **launched))
    events = seen.see(event("text.delta", 0, BEE, offset=0, text="Buzz"))
    assert {each["subagentRunId"] for each in events} == {str(BEE)} and texts(events) == ["Buzz"]
    assert seen.see(event("text.delta", 0, UUID(int=77), offset=0, text="of another run")) == []
    ended = {"run_id": str(BEE), "status": "failed", "summary": "It broke."}
    types = [each["type"] for each in seen.see(event("workstream.ended", None, BEE, RUN, **ended))]
    assert types == ["TEXT_MESSAGE_END", "SUBAGENT_ERROR"]
