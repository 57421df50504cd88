"""Reasoning between tags at the beginning of a text, however the stream is cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_app.providers.chat_completions.response_builder import Assembly
from agents_app.providers.errors import Endpoint
from agents_app.providers.inline_reasoning import BY_TAGS, OFF, PREFILLED, InlineReasoning
from agents_app.types import ModelResponse, ReasoningDelta, TextDelta

# mode, streamed text, reasoning, answer
CASES = [
    (BY_TAGS, "Hello.", "", "Hello."),
    (BY_TAGS, "", "", ""),
    (BY_TAGS, "  indented", "", "  indented"),
    (BY_TAGS, "<think>Hm.</think>\n\nHello.", "Hm.", "Hello."),
    (BY_TAGS, "\n<think>\nHm.\n</think>Hello.", "\nHm.\n", "Hello."),
    (BY_TAGS, "<thinking>a</thinking>b", "a", "b"),
    (BY_TAGS, "[THINK]a[/THINK]b", "a", "b"),
    (BY_TAGS, "<think>a</think> <think>b</think>c", "ab", "c"),
    (BY_TAGS, "<think>a < b </thin </thinking></think>c", "a < b </thin </thinking>", "c"),
    (BY_TAGS, "<think></think>c", "", "c"),
    (BY_TAGS, "<think>a</think>", "a", ""),
    (BY_TAGS, "<think>a</think>\n", "a", ""),
    (BY_TAGS, "<think>never closed </th", "never closed </th", ""),
    (BY_TAGS, "<thin", "", "<thin"),
    (BY_TAGS, "<thinks>", "", "<thinks>"),
    (BY_TAGS, "Use <think>x</think> here.", "", "Use <think>x</think> here."),
    (BY_TAGS, "<think>a</think>Use <think>x</think>.", "a", "Use <think>x</think>."),
    (PREFILLED, "Hm.</think>\nHello.", "Hm.", "Hello."),
    (PREFILLED, "<think>Hm.</think>Hello.", "Hm.", "Hello."),
    (PREFILLED, "Hm.</think><think>More.</think>Hello.", "Hm.More.", "Hello."),
    (PREFILLED, "Just an answer.", "Just an answer.", "Just an answer."),
    (PREFILLED, "Just </thi", "Just </thi", "Just </thi"),
    (OFF, "<think>Hm.</think>Hello.", "", "<think>Hm.</think>Hello."),
]


def split(mode: str, pieces: list[str], *, is_answered: bool = True) -> tuple[str, str]:
    inline = InlineReasoning(mode)
    found = [*map(inline.feed, pieces), inline.finish(is_answered=is_answered)]
    return "".join(reasoning for reasoning, _ in found), "".join(text for _, text in found)


@pytest.mark.parametrize(("mode", "text", "reasoning", "answer"), CASES)
def test_however_a_text_is_cut_its_parts_are_the_same(mode: str, text: str, reasoning: str, answer: str) -> None:
    for size in (1, 2, 3, 5, 7, len(text) or 1):
        assert split(mode, [text[at : at + size] for at in range(0, len(text), size)]) == (reasoning, answer)


@given(
    st.sampled_from([BY_TAGS, PREFILLED]),
    st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "think>", " ", "\n", "a", "[THINK]", "[/THINK]"])),
    st.lists(st.integers(1, 9), min_size=1),
)
def test_cuts_change_nothing(mode: str, words: list[str], sizes: list[int]) -> None:
    text, pieces, at = "".join(words), list[str](), 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    assert split(mode, pieces) == split(mode, [text])


def test_a_prefilled_response_that_was_cut_or_calls_tools_has_no_answer() -> None:
    assert split(PREFILLED, ["Hm", "m"], is_answered=False) == ("Hmm", "")


def test_a_piece_is_shown_as_soon_as_it_cannot_be_a_tag() -> None:
    inline = InlineReasoning()
    fed = [inline.feed(piece) for piece in ("<thi", "nk>", "Hm <", "b", "</thi", "nk>", "\n", "H", "i<think>")]
    reasoning = [("", ""), ("", ""), ("Hm ", ""), ("<b", ""), ("", ""), ("", ""), ("", "")]
    assert fed == [*reasoning, ("", "H"), ("", "i<think>")]


def response(*contents: str, mode: str = BY_TAGS, finish_reason: str = "stop") -> tuple[list[object], ModelResponse]:
    assembly = Assembly(Endpoint("http://models.example/v1", "m"), inline_reasoning=mode)
    deltas: list[object] = []
    for content in contents:
        deltas += assembly.add(json.dumps({"choices": [{"index": 0, "delta": {"content": content}}]}).encode())
    assembly.add(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]}).encode())
    last, whole = assembly.finish()
    return deltas + list(last), whole


def test_a_response_has_the_reasoning_apart_from_its_text() -> None:
    deltas, whole = response("<th", "ink>Hm", ".</think>", "\n\nHel", "lo\ud83d", "\ude00")
    assert deltas == [ReasoningDelta("Hm"), ReasoningDelta("."), TextDelta("Hel"), TextDelta("lo"), TextDelta("😀")]
    assert (whole.reasoning, whole.text) == ("Hm.", "Hello😀")


def test_a_response_that_ends_within_its_reasoning_has_no_text() -> None:
    deltas, whole = response("<think>Hm. </", mode=BY_TAGS, finish_reason="length")
    assert (whole.reasoning, whole.text, whole.finish_reason) == ("Hm. </", "", "length")
    assert deltas == [ReasoningDelta("Hm. "), ReasoningDelta("</")]
    _, whole = response("Hm.", mode=PREFILLED, finish_reason="length")
    assert (whole.reasoning, whole.text) == ("Hm.", "")
    assert response("<think>Hm.</think>Hi", mode=OFF)[1].text == "<think>Hm.</think>Hi"
