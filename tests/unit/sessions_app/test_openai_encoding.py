"""Runs as completions and responses: text that only grows, and streams that can be taken up anywhere."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseOutputTextAnnotationAddedEvent
from openai.types.responses.response_output_text import AnnotationURLCitation

from agents_app.types import Message, RunOptions, Usage
from audit_app.kernel.errors import InvalidInput
from sessions_app.conversation.citations import Citation
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.append_only_text import BREAK, AppendedText
from sessions_app.surfaces.openai.chat_messages import read_conversation
from sessions_app.surfaces.openai.projection_completions import Completion
from sessions_app.surfaces.openai.projection_responses import ResponseEvents
from sessions_app.surfaces.openai.requests import read_completion, read_response
from sessions_app.surfaces.openai.responses import ResponseContext, response

RUN, SESSION = UUID(int=1), UUID(int=2)
CALL = UUID(int=3)
ASKING = ResponseContext(RUN, "default", 1_700_000_000, RunOptions())


def fact(kind: str, step: int | None = 0, **payload: Any) -> SessionEvent:
    return SessionEvent(kind, SESSION, RUN, step, payload, "1.1-1")


def deltas(text: str, cuts: list[int], step: int = 0) -> list[SessionEvent]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pairs = zip(places, places[1:], strict=False)
    return [fact("text.delta", step, offset=start, text=text[start:end]) for start, end in pairs]


def appended(facts: list[SessionEvent]) -> str:
    text = AppendedText()
    return "".join(text.see(each) for each in facts)


@given(st.text(max_size=40), st.lists(st.integers(0, 40), max_size=5), st.integers(0, 40))
def test_a_text_that_begins_again_with_the_same_words_is_said_once(text: str, cuts: list[int], crash: int) -> None:
    before = deltas(text[:crash], cuts)
    assert appended([*before, fact("message.reset"), *deltas(text, cuts)]) == text
    assert appended([*before, fact("snapshot", text=text)]) == text


def test_other_words_after_a_crash_follow_after_a_break() -> None:
    facts = [*deltas("Hello wor", []), fact("message.reset"), *deltas("Hello you", [7])]
    assert appended(facts) == f"Hello wor{BREAK}Hello you"


def test_the_texts_of_two_steps_are_two_paragraphs_of_one_completion() -> None:
    completion = Completion(RUN, "default", 0)
    chunks = [chunk for each in [*deltas("one", []), *deltas("two", [], 1)] for chunk in completion.see(each)]
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == f"one{BREAK}two"


def whole_run(text: str, cuts: list[int]) -> list[SessionEvent]:
    call = {"execution_id": str(CALL), "tool": "echo", "call_index": 0}
    return [
        *deltas("Let me see.", cuts),
        fact("tool.requested", 0, **call, arguments={"text": "x"}, text_length=11),
        fact("tool.completed", 0, **call, output='{"text":"x"}'),
        *deltas(text, cuts, 1),
        fact("message.completed", 1, text_length=len(text)),
    ]


def told(facts: list[SessionEvent], after: int = -1) -> list[dict[str, Any]]:
    events = ResponseEvents(ASKING, after)
    said = events.begin()
    for each in facts:
        said += events.see(each)
    return [*said, *events.end(response(ASKING, "completed", []))]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


CUTS = st.lists(st.integers(0, 30), max_size=4)


@given(st.text(min_size=1, max_size=30), CUTS, CUTS, st.integers(0, 60))
def test_a_response_can_be_taken_up_behind_any_event_however_its_text_is_cut(
    text: str, cuts: list[int], other_cuts: list[int], place: int
) -> None:
    events = told(whole_run(text, cuts))
    seen = events[: 1 + place % len(events)]
    rest = told(whole_run(text, other_cuts), after=seen[-1]["sequence_number"])
    assert text_of([*seen, *rest]) == "Let me see." + text
    structure = lambda said: [event["type"] for event in said if event["type"] != "response.output_text.delta"]  # noqa: E731
    ends_twice = seen[-1]["type"] == "response.completed"  # the last event is told to everybody
    assert structure([*seen, *rest])[: len(structure(events))] == structure(events)
    assert len(structure([*seen, *rest])) == len(structure(events)) + ends_twice


def test_sequence_numbers_only_rise() -> None:
    numbers = [event["sequence_number"] for event in told(whole_run("a long text", [3, 5]))]
    assert numbers == sorted(set(numbers))


def test_what_a_text_cites_is_told_when_its_message_closes_also_behind_words_that_were_taken_back() -> None:
    source = UUID(int=7)
    text = f"Red [{source}]."
    cited = Citation(source, 1, "https://x.example/", "X", "", 4, 38)
    facts = [
        *deltas("Rot", []),
        fact("message.reset"),
        *deltas(text, []),
        fact("citations.added", citations=[cited.to_dict()]),
        fact("message.completed", text_length=len(text)),
    ]
    events = told(facts)
    (added,) = [event for event in events if event["type"] == "response.output_text.annotation.added"]
    (done,) = [event for event in events if event["type"] == "response.output_item.done"]
    (part,) = done["item"]["content"]
    assert part["annotations"] == [added["annotation"]] and added["annotation"]["url"] == cited.uri
    assert part["text"][added["annotation"]["start_index"] : added["annotation"]["end_index"]] == f"[{source}]"
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    assert told(facts, after=added["sequence_number"])[0]["type"] == "response.output_text.done"
    assert AnnotationURLCitation.model_validate(added["annotation"], strict=True).title == "X"
    assert ResponseOutputTextAnnotationAddedEvent.model_validate(added, strict=True).annotation_index == 0


def test_a_whole_completion_carries_its_citations_as_annotations() -> None:
    cited = Citation(UUID(int=7), 1, "https://x.example/", "X", "", 4, 38)
    (choice,) = Completion(RUN, "default", 0).whole("…", "stop", Usage(), [cited])["choices"]
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
def test_what_is_no_conversation_is_refused(items: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_conversation(items, "messages")
    assert str(refused.value.extra["param"]).startswith("messages")


def test_the_last_user_messages_are_the_question() -> None:
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    asked = [{"role": "user", "content": "c"}, {"role": "user", "content": [{"type": "text", "text": "d"}]}]
    before, now = read_conversation([*said, *asked], "messages")
    assert before == (Message("user", "a"), Message("assistant", "b"))
    assert [message.content for message in now] == ["c", "d"]


def test_wishes_of_a_completion_reach_the_run() -> None:
    schema = {"type": "object"}
    question = read_completion(
        {
            "model": "default",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
            "max_tokens": 5,
        }
    )
    assert question.options == RunOptions("Be brief.", schema, None, 5) and question.history == ()


def test_a_response_keeps_what_it_has_to_repeat() -> None:
    question = read_response(
        {"model": "default", "input": "hi", "metadata": {"a": "b"}, "previous_response_id": "resp_1"}
    )
    shown = response(ResponseContext(RUN, "default", 0, question.options), "completed", [])
    assert shown["metadata"] == {"a": "b"} and shown["previous_response_id"] == "resp_1"
