"""Runs as completions and responses: append-only text, and streams that can be resumed behind any event."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CompletionUsage
from openai.types.responses import ResponseOutputTextAnnotationAddedEvent, ResponseUsage
from openai.types.responses.mcp_tool_call_error import McpToolExecutionError
from openai.types.responses.response_output_item import McpApprovalRequest, McpCall
from openai.types.responses.response_output_text import AnnotationURLCitation

from agents_app.types import Message, RunOptions, RunStatus, RunTranscript, RunView, Usage
from audit_app.kernel.errors import InvalidInput
from sessions_app.conversation.citations import Citation
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.append_only_text import BREAK, AppendedText
from sessions_app.surfaces.openai.chat_messages import read_conversation
from sessions_app.surfaces.openai.client_tools import part_from
from sessions_app.surfaces.openai.projection_completions import Completion
from sessions_app.surfaces.openai.projection_completions import usage_of as completion_usage_of
from sessions_app.surfaces.openai.projection_responses import ResponseEvents
from sessions_app.surfaces.openai.requests import read_completion, read_response
from sessions_app.surfaces.openai.responses import ResponseContext, call_item, response, usage_of
from tools_app.types import ToolCall

RUN, SESSION = UUID(int=1), UUID(int=2)
CALL = UUID(int=3)
TRANSCRIPT = RunTranscript(
    RunView(
        id=RUN,
        conversation_id=SESSION,
        ordinal=0,
        agent_id="default",
        status=RunStatus.COMPLETED,
        waiting_on=None,
        fence=1,
        crashes=0,
        error_code="",
        error_message="",
        retry_at=None,
        request_id="",
        actor="user:1",
        usage=Usage(),
        created_at=datetime.now(UTC),
        started_at=None,
        ended_at=None,
    ),
    (),
    (),
    "…",
)
CONTEXT = ResponseContext(RUN, "default", 1_700_000_000, RunOptions())


def session_event(kind: str, step: int | None = 0, **payload: Any) -> SessionEvent:
    return SessionEvent(kind, SESSION, RUN, step, payload, "1.1-1")


def deltas(text: str, cuts: list[int], step: int = 0) -> list[SessionEvent]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pairs = zip(places, places[1:], strict=False)
    return [session_event("text.delta", step, offset=start, text=text[start:end]) for start, end in pairs]


def appended(run_events: list[SessionEvent]) -> str:
    text = AppendedText()
    return "".join(text.see(each) for each in run_events)


@given(st.text(max_size=40), st.lists(st.integers(0, 40), max_size=5), st.integers(0, 40))
def test_a_text_that_begins_again_and_is_the_same_is_sent_once(text: str, cuts: list[int], crash: int) -> None:
    before = deltas(text[:crash], cuts)
    assert appended([*before, session_event("message.reset"), *deltas(text, cuts)]) == text
    assert appended([*before, session_event("snapshot", text=text)]) == text


def test_a_different_text_after_a_crash_follows_after_a_break() -> None:
    run_events = [*deltas("Hello wor", []), session_event("message.reset"), *deltas("Hello you", [7])]
    assert appended(run_events) == f"Hello wor{BREAK}Hello you"


def test_the_texts_of_two_steps_are_two_paragraphs_of_one_completion() -> None:
    completion = Completion(RUN.hex, "default", 0)
    chunks = [chunk for each in [*deltas("one", []), *deltas("two", [], 1)] for chunk in completion.see(each)]
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == f"one{BREAK}two"


def whole_run(text: str, cuts: list[int]) -> list[SessionEvent]:
    call = {"execution_id": str(CALL), "tool": "echo", "call_index": 0}
    return [
        *deltas("Let me see.", cuts),
        session_event("tool.requested", 0, **call, arguments={"text": "x"}, text_length=11),
        session_event("tool.completed", 0, **call, output='{"text":"x"}'),
        *deltas(text, cuts, 1),
        session_event("message.completed", 1, text_length=len(text)),
    ]


def sent(run_events: list[SessionEvent], after: int = -1) -> list[dict[str, Any]]:
    events = ResponseEvents(CONTEXT, after)
    earlier = events.begin()
    for each in run_events:
        earlier += events.see(each)
    return [*earlier, *events.end(response(CONTEXT, "completed", []))]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


CUTS = st.lists(st.integers(0, 30), max_size=4)


@given(st.text(min_size=1, max_size=30), CUTS, CUTS, st.integers(0, 60))
def test_a_response_can_be_resumed_behind_any_event_however_its_text_is_cut(
    text: str, cuts: list[int], other_cuts: list[int], place: int
) -> None:
    events = sent(whole_run(text, cuts))
    seen = events[: 1 + place % len(events)]
    rest = sent(whole_run(text, other_cuts), after=seen[-1]["sequence_number"])
    assert text_of([*seen, *rest]) == "Let me see." + text
    structure = lambda earlier: [event["type"] for event in earlier if event["type"] != "response.output_text.delta"]  # noqa: E731
    ends_twice = seen[-1]["type"] == "response.completed"  # the last event is always sent
    assert structure([*seen, *rest])[: len(structure(events))] == structure(events)
    assert len(structure([*seen, *rest])) == len(structure(events)) + ends_twice


def test_sequence_numbers_only_rise() -> None:
    numbers = [event["sequence_number"] for event in sent(whole_run("a long text", [3, 5]))]
    assert numbers == sorted(set(numbers))


def test_annotations_are_sent_before_their_message_ends_also_after_a_restart() -> None:
    source = UUID(int=7)
    text = f"Red [{source}]."
    cited = Citation(source, 1, "https://x.example/", "X", "", 4, 38)
    run_events = [
        *deltas("Rot", []),
        session_event("message.reset"),
        *deltas(text, []),
        session_event("citations.added", citations=[cited.to_dict()]),
        session_event("message.completed", text_length=len(text)),
    ]
    events = sent(run_events)
    (added,) = [event for event in events if event["type"] == "response.output_text.annotation.added"]
    (done,) = [event for event in events if event["type"] == "response.output_item.done"]
    (part,) = done["item"]["content"]
    assert part["annotations"] == [added["annotation"]] and added["annotation"]["url"] == cited.uri
    assert part["text"][added["annotation"]["start_index"] : added["annotation"]["end_index"]] == f"[{source}]"
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    assert sent(run_events, after=added["sequence_number"])[0]["type"] == "response.output_text.done"
    assert AnnotationURLCitation.model_validate(added["annotation"], strict=True).title == "X"
    assert ResponseOutputTextAnnotationAddedEvent.model_validate(added, strict=True).annotation_index == 0


def test_a_whole_completion_carries_its_citations_as_annotations() -> None:
    cited = Citation(UUID(int=7), 1, "https://x.example/", "X", "", 4, 38)
    whole = Completion(RUN.hex, "default", 0).whole("…", part_from(TRANSCRIPT, 0), [cited])
    (choice,) = whole["choices"]
    assert choice["finish_reason"] == "stop" and "tool_calls" not in choice["message"]
    assert choice["message"]["annotations"] == [
        {
            "type": "url_citation",
            "url_citation": {"start_index": 4, "end_index": 42, "url": "https://x.example/", "title": "X"},
        }
    ]


@pytest.mark.parametrize(
    "items",
    [
        "text",
        [],
        [1],
        [{"role": "nobody", "content": "x"}],
        [{"role": "assistant", "content": "x"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "user", "content": 7}],
        [{"role": "assistant", "tool_calls": [1]}, {"role": "user", "content": "x"}],
    ],
)
def test_an_invalid_conversation_is_refused(items: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_conversation(items, "messages")
    assert str(refused.value.extra["param"]).startswith("messages")


def test_the_last_user_messages_are_those_to_answer() -> None:
    earlier = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    now_sent = [{"role": "user", "content": "c"}, {"role": "user", "content": [{"type": "text", "text": "d"}]}]
    before, now = read_conversation([*earlier, *now_sent], "messages")
    assert before == (Message("user", "a"), Message("assistant", "b"))
    assert [message.content for message in now] == ["c", "d"]


def test_a_call_without_arguments_in_the_history_has_an_empty_object() -> None:
    function = {"name": "now", "arguments": ""}
    calls = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"type": "function_call", "call_id": "c1", **function},
    ]
    for call in calls:
        [read], _ = read_conversation([call, {"role": "user", "content": "And now?"}], "messages")
        assert read.tool_calls == (ToolCall("c1", "now", "{}"),)


def test_the_usage_has_the_cached_and_the_reasoning_tokens() -> None:
    usage = Usage(100, 20, 60, 5)
    completion = CompletionUsage.model_validate(completion_usage_of(usage))
    assert completion.prompt_tokens_details and completion.prompt_tokens_details.cached_tokens == 60
    assert completion.completion_tokens_details and completion.completion_tokens_details.reasoning_tokens == 5
    shown = ResponseUsage.model_validate(usage_of(usage))
    assert (shown.input_tokens_details.cached_tokens, shown.output_tokens_details.reasoning_tokens) == (60, 5)


def test_the_error_of_a_call_has_the_type_of_the_reference() -> None:
    events = ResponseEvents(CONTEXT)
    call = {"execution_id": str(CALL), "tool": "echo", "call_index": 0, "arguments": {}, "text_length": 0}
    events.see(session_event("tool.requested", 0, **call))
    failed = {"execution_id": str(CALL), "tool": "echo", "error": "No such file."}
    [*_, done] = events.see(session_event("tool.failed", 0, **failed))
    item = done["item"]
    assert item == call_item(str(CALL), "echo", {}, error="No such file.")
    error = McpCall.model_validate(item).error
    assert isinstance(error, McpToolExecutionError)
    assert error.content == [{"type": "text", "text": "No such file."}]


def test_stored_prompts_are_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_response({"model": "default", "input": "hi", "prompt": {"id": "x"}})
    assert (refused.value.code, refused.value.extra["param"]) == ("unsupported_parameter", "prompt")


def test_options_of_a_completion_reach_the_run() -> None:
    schema = {"type": "object"}
    parsed = read_completion(
        {
            "model": "default",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
            "max_tokens": 5,
        }
    )
    assert parsed.options == RunOptions("Be brief.", schema, None, 5) and parsed.history == ()


def test_a_response_repeats_fields_of_its_request() -> None:
    parsed = read_response(
        {"model": "default", "input": "hi", "metadata": {"a": "b"}, "previous_response_id": "resp_1"}
    )
    shown = response(ResponseContext(RUN, "default", 0, parsed.options), "completed", [])
    assert shown["metadata"] == {"a": "b"} and shown["previous_response_id"] == "resp_1"


def asked_by_child() -> SessionEvent:
    payload = {"tool": "send_mail", "approval_id": str(UUID(int=8)), "arguments": {"to": "x"}, "reason": "Asks."}
    payload["asked_by"] = "Prices › Deep one"
    return replace(session_event("approval.requested", 7, **payload), parent_run_id=RUN, workstream="deep")


def test_an_approval_of_a_workstream_is_a_paragraph_of_a_completion() -> None:
    completion = Completion(RUN.hex, "default", 0)
    run_events = [*deltas("Hello wor", []), asked_by_child(), session_event("text.delta", offset=9, text="ld")]
    chunks = [chunk for event in run_events for chunk in completion.see(event)]
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    asks = f"Waiting for approval of send_mail. Asks. Decide it by POST /api/approvals/{UUID(int=8)}/decide."
    assert text == f"Hello wor{BREAK}{asks}{BREAK}ld"
    assert Completion(RUN.hex, "default", 0, is_structured=True).see(asked_by_child()) == []


def test_an_approval_of_a_workstream_is_an_item_of_a_response() -> None:
    run_events = [*deltas("Hi", []), asked_by_child()]
    projection = ResponseEvents(CONTEXT)
    events = [event for each in run_events for event in projection.see(each)]
    added, done = events[-2:]
    assert (added["type"], done["type"]) == ("response.output_item.added", "response.output_item.done")
    item = McpApprovalRequest.model_validate(done["item"])
    assert (item.server_label, item.name, item.arguments) == ("komand/Prices › Deep one", "send_mail", '{"to":"x"}')
    resumed = ResponseEvents(CONTEXT, added["sequence_number"])
    assert [event for each in run_events for event in resumed.see(each)] == [done]
